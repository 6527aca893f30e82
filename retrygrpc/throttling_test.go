package retrygrpc_test

import (
	"math"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrygrpc"
)

// TestThrottlingAsGRPC is the script of grpc-go's own TestRetryThrottling, and must give
// what it gives there.
func TestThrottlingAsGRPC(t *testing.T) {
	s := serve(t, func(n int, s grpc.ServerStream, in string) error {
		switch n - 1 {
		case 0, 3, 6, 10, 11, 12, 13, 14, 16, 18:
			return reply(s, in)
		}
		return fail(codes.Unavailable)
	})
	throttle := &budget.GRPC{MaxTokens: 10, TokenRatio: .5}
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
