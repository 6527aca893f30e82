// Package proxytest is a proxy for TCP connections that strikes them as networks and hosts do:
// they go silent, are reset, or are half closed. Real clients and servers of any protocol can
// be at its ends.
package proxytest

import (
	"net"
	"sync"
	"time"
)

// Fault is what becomes of a connection.
type Fault int

const (
	None       Fault = iota // it works
	Silent                  // what either end sends is acknowledged and lost, as by a NAT or a load balancer that has forgotten it
	Dropped                 // what the client sends is not even acknowledged, as by a host that is gone; see [CanDrop]
	Frozen                  // nothing is read until the fault is None, as by a process that is stopped
	Reset                   // both ends get an RST
	HalfClosed              // the client gets a FIN, and what it sends is lost
	Cut                     // both ends get a FIN
)

// Piece says what becomes of bytes that have arrived from one end.
type Piece struct {
	On    []byte // goes to the other end
	Back  []byte // goes to the end that has sent them
	Fault Fault  // what becomes of the connection after that; None leaves it as it is
}

// A Proxy passes connections on to one address. All methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string

	mu       sync.Mutex
	thaw     *sync.Cond
	conns    []*conn
	accepted int
	fate     func(n int) Fault
	delay    time.Duration
	question func([]byte) Piece
	answer   func([]byte) Piece
	closed   bool
	done     sync.WaitGroup
}

// conn is a connection to the client, and the one to the server that belongs to it.
type conn struct {
	client, server *net.TCPConn // server may be nil
	fault          Fault        // guarded by Proxy.mu
}

// New returns a Proxy for the server at target, on a free port of the loopback interface.
// Close it.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target}
	p.thaw = sync.NewCond(&p.mu)
	p.done.Go(p.serve)
	return p, nil
}

// Addr returns the proxy's host and port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Strike does f to all connections that have been accepted, and nothing to later ones.
func (p *Proxy) Strike(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.strike(f)
	}
	p.thaw.Broadcast()
}

// StrikeNew does f(n) to the n-th connection from now on, from 0, as soon as it is accepted.
// The
// server gets it only if it works, or is frozen. A nil f ends that.
func (p *Proxy) StrikeNew(f func(n int) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.accepted
	p.fate = nil
	if f != nil {
		p.fate = func(n int) Fault { return f(n - first) }
	}
}

// Slow holds back everything for d.
func (p *Proxy) Slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Look shows what clients send to question, and what servers send to answer, in pieces as
// they arrive. A nil func passes everything on.
func (p *Proxy) Look(question, answer func([]byte) Piece) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.question, p.answer = question, answer
}

// Accepted returns how many connections there have been.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Close ends all connections, and waits until they have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.listener.Close()
	for _, c := range p.conns {
		c.close()
	}
	p.thaw.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}

func (p *Proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.accept(&conn{client: c.(*net.TCPConn)})
	}
}

func (p *Proxy) accept(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.close()
		return
	}
	p.conns = append(p.conns, c)
	n := p.accepted
	p.accepted++
	if p.fate != nil {
		c.strike(p.fate(n))
	}
	if c.fault == None || c.fault == Frozen {
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			c.close()
			return
		}
		c.server = server.(*net.TCPConn)
		p.done.Go(func() { p.pass(c, c.client, c.server, &p.answer) })
	}
	p.done.Go(func() { p.pass(c, c.server, c.client, &p.question) })
}

// pass copies what it reads. What look points to is guarded by p.mu.
func (p *Proxy) pass(c *conn, to, from *net.TCPConn, look *func([]byte) Piece) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		delay, ok := p.proceed(c)
		if !ok {
			return
		}
		if err != nil {
			p.end(c, from)
			return
		}
		time.Sleep(delay)
		piece := p.look(c, buf[:n], look)
		if len(piece.On) > 0 && to != nil {
			_, _ = to.Write(piece.On)
		}
		if len(piece.Back) > 0 {
			_, _ = from.Write(piece.Back)
		}
		if piece.Fault != None {
			p.mu.Lock()
			c.strike(piece.Fault)
			p.mu.Unlock()
		}
	}
}

// proceed waits while c is frozen, and returns false when the proxy is closed.
func (p *Proxy) proceed(c *conn) (delay time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c.fault == Frozen && !p.closed {
		p.thaw.Wait()
	}
	return p.delay, !p.closed
}

// look returns what becomes of bytes that have arrived.
func (p *Proxy) look(c *conn, b []byte, look *func([]byte) Piece) Piece {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case c.fault != None:
		return Piece{}
	case *look == nil:
		return Piece{On: b}
	}
	return (*look)(b)
}

// end is called when one end has closed the connection. The other end learns of it only if
// the network works.
func (p *Proxy) end(c *conn, from *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.fault == None || c.fault == Reset || c.fault == Cut {
		c.close()
		return
	}
	from.Close()
}

// strike does f to the connection.
func (c *conn) strike(f Fault) {
	if c.fault == Reset || c.fault == Cut || c.fault == Dropped && f != Reset && f != Cut { // there is no way back
		return
	}
	c.fault = f
	switch f {
	case Dropped:
		drop(c.client)
	case Reset:
		_ = c.client.SetLinger(0)
		c.close()
	case HalfClosed:
		_ = c.client.CloseWrite()
	case Cut:
		c.close()
	}
}

func (c *conn) close() {
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}
