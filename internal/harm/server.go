package harm

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

// server is the provider of a world.
type server struct {
	world *World
	began time.Time

	mu      sync.Mutex
	empty   time.Time // when its bucket was, or would have been, empty
	refused int       // requests for which the bucket had nothing left
	minute  time.Duration
	used    float64 // in that minute
}

// request is what a call sends at once.
type request struct {
	call   *Call
	number int // within the call: 1 for the first
	copy   int // beside it: 0 for itself
	target int
	at     time.Duration // since the world began
}

func (r request) uniform(p purpose) float64 {
	return uniform(r.call.key^uint64(r.target)<<32^uint64(r.copy)<<48, r.number, p)
}

// Reply is what an answer says of the provider's quota of requests in a minute. Some count by a bucket that fills
// all the time, and some in whole minutes.
type Reply struct {
	Quota    float64
	InBucket float64 // what remains now
	InMinute float64
}

// quota returns how many requests a second the provider takes from all callers, and how
// many at once: twice and ten times what they send, retries of a third of the requests included.
func (w *World) quota() (perSecond, bucket float64) {
	perSecond = 2 * w.rate
	if w.workers > 0 {
		perSecond = 2 * float64(w.workers) * float64(time.Second) / float64(think)
	}
	perSecond *= float64(w.processes)
	return perSecond, math.Ceil(max(10*perSecond, float64(2*w.batch), 10))
}

// take takes a request from the quota, and returns what remains: less than nothing if there was none.
func (s *server) take(now time.Time) Reply {
	rate, bucket := s.world.quota()
	s.mu.Lock()
	defer s.mu.Unlock()
	full := now.Add(-time.Duration(bucket / rate * float64(time.Second)))
	if s.empty.Before(full) {
		s.empty = full
	}
	if minute := now.Sub(s.began).Truncate(time.Minute); minute > s.minute {
		s.minute, s.used = minute, 0
	}
	s.used++
	r := Reply{60 * rate, math.Floor(now.Sub(s.empty).Seconds()*rate + 1e-6 - 1), 60*rate - s.used}
	if r.InBucket < 0 {
		s.refused++
		return r
	}
	s.empty = s.empty.Add(time.Duration(float64(time.Second) / rate))
	return r
}

// send returns how a request ends. It takes the time that the request does, or until ctx ends.
func (s *server) send(ctx context.Context, c *Call, target int) (Reply, error) {
	w, now := s.world, time.Now()
	r := request{call: c, copy: hedge.Number(ctx) - 1, target: target, at: now.Sub(s.began)}
	if r.copy == 0 { // so that the retry that follows is the second request, with and without a hedge
		c.sent.Add(1)
	}
	r.number = int(c.sent.Load())
	reply := s.take(now)
	if reply.InBucket < 0 {
		return Reply{}, s.wait(ctx, r, 2*time.Millisecond, status(http.StatusTooManyRequests, time.Second))
	}
	f := none
	switch {
	case w.tenants > 0 && int(uniform(c.key, 0, kind)*float64(w.tenants)) == 0:
		f = w.refusal
	case w.part > 0 && r.uniform(fate) < w.part:
		f = w.failure
	case w.replicas > 0 && r.at >= w.sickFrom && int(r.uniform(replica)*float64(w.replicas)) == 0:
		f = w.sick
	}
	answer := w.answer(r)
	const quick = 2 * time.Millisecond // a refusal
	switch f {
	case throttle:
		return Reply{}, s.wait(ctx, r, quick, status(http.StatusTooManyRequests, w.hint))
	case forbid:
		return Reply{}, s.wait(ctx, r, quick, status(http.StatusForbidden, 0))
	case busy:
		return Reply{}, s.wait(ctx, r, quick, status(http.StatusServiceUnavailable, 0))
	case refuse:
		return Reply{}, s.wait(ctx, r, time.Millisecond, errRefused)
	case reset:
		return Reply{}, s.wait(ctx, r, time.Duration(r.uniform(broke)*float64(answer)), errReset)
	case hang:
		return Reply{}, s.ended(ctx, r)
	case slow:
		answer *= 10
	}
	return reply, s.wait(ctx, r, answer, nil)
}

// wait returns err after d, or ctx's when it ends.
func (s *server) wait(ctx context.Context, r request, d time.Duration, err error) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return err
	case <-ctx.Done():
		return s.ended(ctx, r)
	}
}

// ended returns ctx's error when it has ended. The copies of an attempt, whose contexts end at the same
// instant, return one after the other, so that no scheduler decides who is first.
func (s *server) ended(ctx context.Context, r request) error {
	<-ctx.Done()
	time.Sleep(time.Duration(1+r.copy) * time.Microsecond)
	return ctx.Err()
}

func status(code int, hint time.Duration) error {
	return &retryhttp.StatusError{Code: code, Method: http.MethodGet, URL: url, Hint: hint}
}

const url = "http://provider.test/"

// What net/http returns, without its url.Error: op has made one request, and followed no redirect.
var (
	errReset         = io.ErrUnexpectedEOF
	errRefused error = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")} // plan9 has no number for it
)

// Call is one call of a caller.
type Call struct {
	key    uint64
	server *server
	gauge  *gauge
	sent   atomic.Int32 // requests, without copies
	drawn  atomic.Int32 // random numbers
}

// Rand returns the random numbers of the call's waits.
func (c *Call) Rand() float64 { return uniform(c.key, int(c.drawn.Add(1)), jitter) }

// Send sends a request to a target, 0 if there is one.
func (c *Call) Send(ctx context.Context, target int) (Reply, error) {
	c.gauge.add(1)
	defer c.gauge.add(-1)
	return c.server.send(ctx, c, target)
}
