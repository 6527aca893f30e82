package retrygrpc_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrygrpc"
)

// A server that is unavailable gets twenty calls, and then one now and then. An answer closes the
// breaker, whatever its status, and a stream that is tried keeps others out until it ends.
func TestBreaker(t *testing.T) {
	var answer atomic.Uint32
	answer.Store(uint32(codes.Unavailable))
	goOn := make(chan bool)
	s := serve(t, func(_ int, stream grpc.ServerStream, _ string) error {
		if c := codes.Code(answer.Load()); c != codes.OK {
			return fail(c)
		}
		<-goOn
		return reply(stream, "hello")
	})
	clock := clockx.NewVirtual(time.Unix(0, 0))
	var b breaker.Breaker
	p := retry.Policy{MaxAttempts: 1, Clock: clock, Rand: func() float64 { return .5 }}
	cc := ready(t, dial(t, s.addr, &retrygrpc.Client{Policy: p, Guards: under(&b)}))
	for range 20 {
		if _, err := call(within(t), cc, get); status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
	}
	refused := func() {
		t.Helper()
		calls := s.calls()
		if _, err := call(within(t), cc, get); !errors.Is(err, breaker.ErrOpen) || reason(err) != "guard" || s.calls() != calls {
			t.Errorf("an open breaker: %v, and %d calls", err, s.calls()-calls)
		}
	}
	refused()
	clock.Advance(time.Second)
	if _, err := call(within(t), cc, get); status.Code(err) != codes.Unavailable || b.Open() != 2*time.Second {
		t.Errorf("half-open: %v, and it is open for %v", err, b.Open())
	}
	refused()

	clock.Advance(2 * time.Second)
	answer.Store(uint32(codes.OK))
	stream, err := open(within(t), cc, get)
	if err != nil {
		t.Fatal(err)
	}
	refused()
	goOn <- true
	if got, err := all(stream); err != nil || len(got) != 1 {
		t.Errorf("the stream: %q, %v", got, err)
	}
	eventually(t, "the breaker closes", func() bool { return b.Open() == 0 })
	answer.Store(uint32(codes.NotFound))
	for range 40 {
		if _, err := call(within(t), cc, get); status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
	}

	answer.Store(uint32(codes.Unavailable))
	clock.Advance(time.Minute)
	for range 20 {
		_, _ = call(within(t), cc, get)
	}
	clock.Advance(time.Second)
	answer.Store(uint32(codes.NotFound))
	if _, err := call(within(t), cc, get); status.Code(err) != codes.NotFound || b.Open() != 0 {
		t.Errorf("half-open: %v, and it is open for %v", err, b.Open())
	}
}
