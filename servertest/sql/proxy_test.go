package sql_test

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
)

// proxy stands between a driver and its server, to lose an answer.
type proxy struct {
	net.Listener
	armed  atomic.Bool
	silent atomic.Bool
	refuse atomic.Bool
	cuts   atomic.Int32
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

// silenceNext has the server's next answer thrown away, and nothing else happen.
func (p *proxy) silenceNext() { p.silent.Store(true) }

// refuseRollback has MariaDB's next ROLLBACK answered with an error. The server does
// not get it.
func (p *proxy) refuseRollback() { p.refuse.Store(true) }

// In MySQL's protocol: a query in a packet of nine bytes, and error 1317 (query was
// interrupted) in the packet after it.
var (
	rollback = []byte("\x09\x00\x00\x00\x03ROLLBACK")
	refusal  = []byte("\x11\x00\x00\x01\xff\x25\x05#70100refused!")
)

func (p *proxy) serve(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { // questions
		defer server.Close()
		pass(server, client, func(question []byte) (forward, end bool) {
			if bytes.Equal(question, rollback) && p.refuse.CompareAndSwap(true, false) {
				_, err := client.Write(refusal)
				return false, err != nil
			}
			return true, false
		})
	}()
	pass(client, server, func([]byte) (forward, end bool) {
		if p.armed.CompareAndSwap(true, false) {
			p.cuts.Add(1)
			return false, true
		}
		return !p.silent.CompareAndSwap(true, false), false
	})
}

// pass copies what it reads, as long as look wants it forwarded and does not end it.
func pass(to, from net.Conn, look func([]byte) (forward, end bool)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			forward, end := look(buf[:n])
			if end {
				return
			}
			if !forward {
				n = 0
			}
		}
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}
