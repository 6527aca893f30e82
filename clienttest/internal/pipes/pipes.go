// Package pipes is a network without sockets, so that its clients and its servers can be
// real and live in a bubble of testing/synctest: there even an hour's wait takes no time.
package pipes

import (
	"context"
	"net"
	"sync"
)

// Pipes is a network with one server, for which it is a net.Listener.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once

	mu       sync.Mutex
	accepted []net.Conn // since the latest Cut
}

// New returns a network.
func New() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Dial connects to the server, whatever the address.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.accepted = append(p.accepted, c)
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Cut ends all connections that the server has accepted.
func (p *Pipes) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.accepted {
		c.Close()
	}
	p.accepted = nil
}

func (p *Pipes) Close() error {
	p.close.Do(func() { close(p.closed) })
	return nil
}

// Addr returns an address that looks like that of a server, for clients that read it.
func (p *Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }
