package sql_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/goretry/retry/internal/proxytest"
)

// proxy stands between a driver and its server, to lose an answer.
type proxy struct {
	*proxytest.Proxy
	armed  atomic.Bool
	silent atomic.Bool
	refuse atomic.Bool
	cuts   atomic.Int32
}

// newProxy returns a proxy of the server at addr.
func newProxy(t *testing.T, addr string) *proxy {
	t.Helper()
	through, err := proxytest.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(through.Close)
	p := &proxy{Proxy: through}
	p.Look(p.question, p.answer)
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

func (p *proxy) question(b []byte) proxytest.Piece {
	if bytes.Equal(b, rollback) && p.refuse.CompareAndSwap(true, false) {
		return proxytest.Piece{Back: refusal}
	}
	return proxytest.Piece{On: b}
}

func (p *proxy) answer(b []byte) proxytest.Piece {
	switch {
	case p.armed.CompareAndSwap(true, false):
		p.cuts.Add(1)
		return proxytest.Piece{Fault: proxytest.Cut}
	case p.silent.CompareAndSwap(true, false):
		return proxytest.Piece{}
	}
	return proxytest.Piece{On: b}
}
