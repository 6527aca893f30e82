package retrygrpc

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
)

// passing searches what it wraps by all of its methods, and counts their calls.
type passing struct {
	err   error
	calls *int
}

func (p *passing) Error() string        { return "passing" }
func (p *passing) Unwrap() error        { *p.calls++; return p.err }
func (p *passing) Is(target error) bool { *p.calls++; return errors.Is(p.err, target) }
func (p *passing) As(target any) bool   { *p.calls++; return errors.As(p.err, target) }

func TestStatusOfIsLinear(t *testing.T) {
	const n = 60
	busy := status.Error(codes.Unavailable, "busy")
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{busy, true}, {errors.New("plain"), false}, {errors.Join(errors.New("plain"), busy), true},
		{errors.Join(busy, &retry.Error{}), false}, {&retry.Error{Errs: []error{busy}}, false},
	} {
		calls := 0
		err := tt.err
		for range n {
			err = &passing{err, &calls}
		}
		for _, err := range []error{tt.err, fmt.Errorf("x: %w", tt.err), err} {
			st, ok := statusOf(err)
			if ok != tt.want || ok && (st.Code() != codes.Unavailable || err != busy && st.Message() != err.Error()) {
				t.Errorf("statusOf(%v) = %v, %v, want %v", err, st, ok, tt.want)
			}
		}
		if calls > 10*n {
			t.Errorf("%v: %d calls of methods for %d errors", tt.err, calls, n)
		}
	}
}
