package budget_test

import (
	"math"
	"sync"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
)

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

func TestGRPCNumbers(t *testing.T) {
	var none *budget.GRPC
	for _, tt := range []struct {
		name    string
		b       *budget.GRPC
		retried int
		balance float64 // after it
	}{
		{"zero", &budget.GRPC{}, 4, .5},
		{"100", &budget.GRPC{MaxTokens: 100}, 49, .5},
		{"1", &budget.GRPC{MaxTokens: 1}, 0, 0},
		{"2", &budget.GRPC{MaxTokens: 2}, 0, .5},
		{"2.002", &budget.GRPC{MaxTokens: 2.002}, 1, .002 / 2.002},
		{"negative", &budget.GRPC{MaxTokens: -1}, 0, 0},
		{"a part of a token, negative", &budget.GRPC{MaxTokens: -.5}, 0, 0},
		{"NaN", &budget.GRPC{MaxTokens: math.NaN()}, 0, 0},
		{"infinite", &budget.GRPC{MaxTokens: math.Inf(1)}, 1000, 1},
		{"nil", none, 1000, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.b.Begin(retry.Opening{})
			if got := failures(tt.b); got != tt.retried {
				t.Errorf("%d failures are retried, want %d", got, tt.retried)
			}
			if got := tt.b.Balance(); !(math.Abs(got-tt.balance) <= 1e-9) { // NaN is as far as can be
				t.Errorf("Balance() = %v, want %v", got, tt.balance)
			}
		})
	}
	for ratio, want := range map[float64]float64{0: .51, .5: .55, -1: .5, -.5: .5, math.NaN(): .5, 100: 1, math.Inf(1): 1} {
		b := &budget.GRPC{TokenRatio: ratio}
		failures(b)
		b.End(retry.Outcome{OK: true})
		if got := b.Balance(); !(math.Abs(got-want) <= 1e-9) {
			t.Errorf("TokenRatio %v: Balance() = %v, want %v", ratio, got, want)
		}
	}
}

// TestGRPCIsExact: whatever runs at once, no token is lost or made.
func TestGRPCIsExact(t *testing.T) {
	b := &budget.GRPC{MaxTokens: 100_000, TokenRatio: 1}
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

// FuzzGRPC: any numbers, any course of events: the balance is in [0,1], and a
// retry is granted only above one half.
func FuzzGRPC(f *testing.F) {
	f.Add(10., .1, []byte{0, 0, 1, 2})
	f.Fuzz(func(t *testing.T, tokens, ratio float64, events []byte) {
		b := &budget.GRPC{MaxTokens: tokens, TokenRatio: ratio}
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
