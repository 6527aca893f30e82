package servertest_test

import (
	"net"
	"sync/atomic"
	"testing"
)

// proxy stands between a driver and its server, to lose an answer.
type proxy struct {
	net.Listener
	armed atomic.Bool
	cuts  atomic.Int32
}

// newProxy returns a proxy of the server at addr.
func newProxy(t *testing.T, addr string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &proxy{Listener: l}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client, addr)
		}
	}()
	return p
}

// cutNext has the server's next answer thrown away, on whatever connection, and that
// connection closed. When it comes the server has done what it was asked to.
func (p *proxy) cutNext() { p.armed.Store(true) }

func (p *proxy) serve(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { // questions
		defer server.Close()
		p.pass(server, client, func() bool { return false })
	}()
	p.pass(client, server, func() bool { return p.armed.CompareAndSwap(true, false) })
}

func (p *proxy) pass(to, from net.Conn, cut func() bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && cut() {
			p.cuts.Add(1)
			return
		}
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}
