package retrygrpc_test

import (
	"math"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
)

// TestThrottleAsGRPC is the script of grpc-go's own TestRetryThrottling, and must give
// what it gives there.
func TestThrottleAsGRPC(t *testing.T) {
	s := serve(t, func(n int, s grpc.ServerStream, in string) error {
		switch n - 1 {
		case 0, 3, 6, 10, 11, 12, 13, 14, 16, 18:
			return reply(s, in)
		}
		return fail(codes.Unavailable)
	})
	throttle := &retrygrpc.Throttle{MaxTokens: 10, TokenRatio: .5}
	p := four()
	p.Budget = throttle
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
	for i, want := range []struct {
		code   codes.Code
		calls  int // so far
		tokens float64
	}{
		{codes.OK, 1, 10},
		{codes.OK, 4, 8.5}, // 10 - 2 failures + 0.5 success
		{codes.OK, 7, 7},
		{codes.Unavailable, 9, 5}, // the first failure is retried, the second is not
		{codes.Unavailable, 10, 4},
		{codes.OK, 11, 4.5},
		{codes.OK, 12, 5},
		{codes.OK, 13, 5.5},
		{codes.OK, 14, 6},
		{codes.OK, 15, 6.5},
		{codes.OK, 17, 6},
		{codes.Unavailable, 18, 5},
	} {
		_, err := call(within(t), cc, get)
		if status.Code(err) != want.code || s.calls() != want.calls {
			t.Errorf("call %d: %v after %d calls, want %v after %d", i+1, err, s.calls(), want.code, want.calls)
		}
		if got := throttle.Balance() * 10; math.Abs(got-want.tokens) > 1e-9 {
			t.Errorf("call %d: %v tokens are left, want %v", i+1, got, want.tokens)
		}
	}
}

// failures returns how many failures in a row b has retried.
func failures(b retry.Budget) int {
	for n := range 1000 {
		if !b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: n + 1}) {
			b.End(retry.Outcome{Retried: retry.Transient})
			return n
		}
	}
	return 1000
}

func TestThrottleNumbers(t *testing.T) {
	var none *retrygrpc.Throttle
	for _, tt := range []struct {
		name    string
		b       *retrygrpc.Throttle
		retried int
		balance float64 // after it
	}{
		{"zero", &retrygrpc.Throttle{}, 4, .5},
		{"100", &retrygrpc.Throttle{MaxTokens: 100}, 49, .5},
		{"1", &retrygrpc.Throttle{MaxTokens: 1}, 0, 0},
		{"2", &retrygrpc.Throttle{MaxTokens: 2}, 0, .5},
		{"2.002", &retrygrpc.Throttle{MaxTokens: 2.002}, 1, .002 / 2.002},
		{"negative", &retrygrpc.Throttle{MaxTokens: -1}, 0, 0},
		{"NaN", &retrygrpc.Throttle{MaxTokens: math.NaN()}, 0, 0},
		{"infinite", &retrygrpc.Throttle{MaxTokens: math.Inf(1)}, 1000, 1},
		{"nil", none, 1000, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.b.Begin(retry.Opening{})
			if got := failures(tt.b); got != tt.retried {
				t.Errorf("%d failures are retried, want %d", got, tt.retried)
			}
			if got := tt.b.Balance(); math.Abs(got-tt.balance) > 1e-9 {
				t.Errorf("Balance() = %v, want %v", got, tt.balance)
			}
		})
	}
	for ratio, want := range map[float64]float64{0: .51, .5: .55, -1: .5, math.NaN(): .5, 100: 1, math.Inf(1): 1} {
		b := &retrygrpc.Throttle{TokenRatio: ratio}
		failures(b)
		b.End(retry.Outcome{OK: true})
		if got := b.Balance(); math.Abs(got-want) > 1e-9 {
			t.Errorf("TokenRatio %v: Balance() = %v, want %v", ratio, got, want)
		}
	}
}

// TestThrottleIsExact: whatever runs at once, no token is lost or made.
func TestThrottleIsExact(t *testing.T) {
	b := &retrygrpc.Throttle{MaxTokens: 100_000, TokenRatio: 1}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
				b.End(retry.Outcome{Retried: retry.Transient})
				b.End(retry.Outcome{OK: true})
			}
		})
	}
	all.Wait()
	if got := b.Balance(); got != .92 {
		t.Errorf("Balance() = %v, want 0.92", got)
	}
}

// FuzzThrottle: any numbers, any course of events: the balance is in [0,1], and a
// retry is granted only above one half.
func FuzzThrottle(f *testing.F) {
	f.Add(10., .1, []byte{0, 0, 1, 2})
	f.Fuzz(func(t *testing.T, tokens, ratio float64, events []byte) {
		b := &retrygrpc.Throttle{MaxTokens: tokens, TokenRatio: ratio}
		for i, event := range events {
			switch event % 3 {
			case 0:
				if b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: i + 1}) && !(b.Balance() > .5) {
					t.Errorf("a retry was granted with %v left", b.Balance())
				}
			case 1:
				b.End(retry.Outcome{Retried: retry.Transient, OK: true})
			case 2:
				b.End(retry.Outcome{Retried: retry.Transient})
			}
			if got := b.Balance(); !(got >= 0 && got <= 1) {
				t.Errorf("Balance() = %v", got)
			}
		}
	})
}
