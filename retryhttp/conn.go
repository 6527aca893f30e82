package retryhttp

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/tcpinfo"
)

// silence is what a call knows of its connections after an attempt that has timed out: see the
// package documentation. Connections live in real time, whatever the policy's clock.
type silence struct {
	since time.Time // when the latest attempt began; zero if it did not time out

	answered atomic.Pointer[net.Conn] // the latest that was seen alive, maybe by its answer to a ping
}

// suspect notes how the latest attempt has ended, now, before its retry. Calls that need proof
// have none after an attempt that got a connection.
func (c *call) suspect() {
	timedOut := !c.prove && c.policy.AttemptTimeout > 0 && (c.late || context.Cause(c.ctx) == retry.ErrAttemptTimeout)
	switch {
	case timedOut:
		if c.silence == nil {
			c.silence = new(silence)
		}
		c.silence.since = time.Now().Add(-c.policy.AttemptTimeout)
	case c.silence != nil:
		c.silence.since = time.Time{}
	}
}

// onLive sends req by base, after an attempt that has timed out on a connection which has not gone
// silent. If base does not take another one by itself, onLive sends req again.
func (c *call) onLive(base http.RoundTripper, req *http.Request) (*http.Response, error) {
	if c.silence == nil || c.silence.since.IsZero() {
		return base.RoundTrip(req)
	}
	l := &look{silence: c.silence, ctx: req.Context(), dropped: c.Dropped}
	sent := req.WithContext(httptrace.WithClientTrace(l.ctx, &httptrace.ClientTrace{GotConn: l.gotConn}))
	for {
		resp, err := base.RoundTrip(sent)
		if err == nil || !l.again() {
			return resp, err
		}
		if hasBody(req) { // never in a race, so c.body is this request's
			if c.body.drop() != nil {
				return resp, err
			}
			sent = sent.WithContext(sent.Context())
			sent.Body = c.body.next(c.MaxBuffer)
		}
	}
}

// look looks at the connections that a retry gets.
type look struct {
	*silence
	ctx     context.Context
	dropped func(context.Context, httptrace.GotConnInfo)

	mu     sync.Mutex
	closed net.Conn  // the latest connection, if it was closed
	first  time.Time // when that was
}

// gotConn is called before the request is written.
func (l *look) gotConn(got httptrace.GotConnInfo) {
	if !got.Reused || !l.silent(got) {
		l.note(nil)
		return
	}
	l.note(got.Conn)
	// Not got.Conn: the Close of a tls.Conn may wait for the peer. Base closes that one.
	if tcpinfo.Bottom(got.Conn).Close() == nil && l.dropped != nil {
		l.dropped(l.ctx, got)
	}
}

func (l *look) note(closed net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != closed {
		l.first = time.Now()
	}
	l.closed = closed
}

// again reports whether the request is to be sent again, since it got a connection that was
// closed. An HTTP/2 connection that was closed stays in the pool for a moment.
func (l *look) again() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed != nil && time.Since(l.first) < patience && wait(l.ctx, time.Millisecond)
}

// silent decides on a connection of the pool. If an answer to HTTP/2's ping may be underway,
// it waits for that.
func (l *look) silent(got httptrace.GotConnInfo) bool {
	answered := l.answered.Load()
	spared := answered != nil && *answered == got.Conn
	for start := time.Now(); ; {
		info, known := tcpinfo.Of(got.Conn)
		now := time.Now()
		s := sight{
			Info: info, known: known,
			quiet: now.Sub(l.since), waited: now.Sub(start),
			idle: got.WasIdle, idleFor: got.IdleTime, http2: speaksHTTP2(got.Conn), spared: spared,
		}
		state := s.judge()
		if state == alive && known {
			l.answered.Store(&got.Conn)
		}
		if state != unclear || !wait(l.ctx, 2*time.Millisecond) {
			return state == dead
		}
	}
}

// sight is what is seen of a connection of the pool.
type sight struct {
	tcpinfo.Info
	known   bool          // the system tells
	quiet   time.Duration // since the attempt began that has timed out
	waited  time.Duration // for an answer to a ping
	idle    bool          // no request is under way on it
	idleFor time.Duration // if idle
	http2   bool          // it is TLS, and speaks HTTP/2
	spared  bool          // it was seen alive after an earlier attempt of this call
}

type state int

const (
	unclear state = iota
	alive
	dead
)

// tick is by how much the system's clock of a connection may be wrong.
const tick = 10 * time.Millisecond

// judge says whether a connection has gone silent.
//
// When an HTTP/2 request is canceled, net/http resets its stream and sends a ping. So if no
// answer comes, there is nobody at the other end, and an idle connection costs no more than a
// handshake. But net/http sends no second ping until something else than its answer has come.
// A connection that has answered a first one is therefore treated like one on which other
// requests are under way: it is dead only if the peer's system does not acknowledge what was
// sent, however slow the server may be. What was not sent again may just have left.
func (s sight) judge() state {
	switch {
	case !s.known:
		if s.idle && (s.idleFor >= s.quiet || s.http2) {
			return dead
		}
		return alive
	case s.Received < s.quiet-tick:
		return alive
	case !s.idle || s.spared:
		if s.Unacked && (s.Resent > 1 || s.Resent == 1 && s.Acknowledged > s.quiet+tick) {
			return dead
		}
		return alive
	case s.idleFor >= s.quiet: // the attempt was not on it, so there was no ping
		return dead
	case s.waited > min(2*s.RTT+tick, patience):
		return dead
	}
	return unclear
}

func speaksHTTP2(c net.Conn) bool {
	t, ok := c.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}

// wait reports whether ctx has not ended after d.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
