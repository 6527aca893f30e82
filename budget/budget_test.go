package budget_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/budgettest"
)

const ms = time.Millisecond

var (
	epoch   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	errDown = errors.New("down")
)

// virtual is a policy of five attempts on a virtual clock.
func virtual() retry.Policy {
	return retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(time.Second), Clock: clockx.NewVirtual(epoch)}
}

// failing fails so often, and then succeeds.
func failing(failures int) (op func(context.Context) error, calls *int) {
	calls = new(int)
	return func(context.Context) error {
		if *calls++; *calls <= failures {
			return errDown
		}
		return nil
	}, calls
}

func wantReason(t *testing.T, err error, want retry.Reason) {
	t.Helper()
	if e, ok := errors.AsType[*retry.Error](err); !ok || e.Reason != want {
		t.Errorf("%v, want the reason %v", err, want)
	}
}

func TestWithNoRunsAndNoLimit(t *testing.T) {
	b := budgettest.Timed(&budget.Ratio{Ratio: math.Inf(1)}, clockx.NewVirtual(epoch))
	if left, got := b.Balance(), budgettest.Granted(b, 9, retry.Transient); left != 1 || got != 1 {
		t.Errorf("no runs have %d retries, and a balance of %v, want 1 and 1", got, left)
	}
}

func TestBalanceIsNotNegative(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	rate := budgettest.Timed(&budget.Ratio{Ratio: 1}, v)
	budgettest.Succeed(rate, 4)
	v.Advance(9 * time.Second)
	budgettest.Succeed(rate, 1)
	if got := budgettest.Granted(rate, 9, retry.Transient); got != 5 {
		t.Errorf("%d retries are granted for 5 runs", got)
	}
	v.Advance(3 * time.Second)
	if got := rate.Balance(); got != 0 {
		t.Errorf("5 of 1 retries are made: the balance is %v, want 0", got)
	}
	late := budgettest.Timed(&budget.Ratio{}, v)
	budgettest.Succeed(late, 10)
	v.Advance(9 * time.Second)
	late.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
	v.Advance(3 * time.Second)
	if left, got := late.Balance(), budgettest.Granted(late, 9, retry.Transient); left != 0 || got != 0 {
		t.Errorf("no success is left in the window, but a retry: the balance is %v, and %d are granted, want 0", left, got)
	}
}

func TestNilBudgetsGrantEverything(t *testing.T) {
	for _, b := range []budgettest.Budget{(*retry.EarnedBudget)(nil), (*budget.Token)(nil), (*budget.Ratio)(nil)} {
		p := virtual()
		p.Budget = b
		succeeds, _ := failing(0)
		if err := retry.Run(t.Context(), p, succeeds); err != nil {
			t.Errorf("%T: %v", b, err)
		}
		op, calls := failing(9)
		wantReason(t, retry.Run(t.Context(), p, op), retry.ReasonMaxAttempts)
		if *calls != 5 || b.Balance() != 1 {
			t.Errorf("%T: %d calls, balance %v, want 5 and 1", b, *calls, b.Balance())
		}
	}
}

func TestBudgetsUnderContention(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	ratio := budgettest.Timed(&budget.Ratio{Ratio: .5}, v)
	token := &budget.Token{Capacity: 1000, Cost: 1}
	var ratioGrants, tokenGrants atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				ratio.End(retry.Outcome{OK: true})
				for range 3 {
					if ratio.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
						ratioGrants.Add(1)
					}
				}
				if token.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
					tokenGrants.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := ratioGrants.Load(); n > 2000 || n < 1900 {
		t.Errorf("4000 runs had %d retries, want half as many", n)
	}
	if n := tokenGrants.Load(); n != 1000 {
		t.Errorf("%d retries were granted for 1000 tokens", n)
	}
}

// FuzzBudgets runs random operations against each budget and against a model of
// it that is too simple to be wrong.
func FuzzBudgets(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7}, 100, 10, 3, 2, .5)
	f.Add([]byte{0, 0, 0, 0, 1, 1, 1, 9, 9, 9, 17, 25, 33}, 0, 0, 0, 0, 0.0)
	f.Fuzz(func(t *testing.T, ops []byte, capacity, cost, throttle, reward int, ratio float64) {
		v := clockx.NewVirtual(epoch)
		token := &budget.Token{Capacity: capacity, Cost: cost, ThrottleCost: throttle, Reward: reward}
		rate := budgettest.Timed(&budget.Ratio{Ratio: ratio}, v)
		orDefault := func(n, byDefault int) int64 {
			if n == 0 {
				n = byDefault
			}
			return int64(max(n, 0))
		}
		size, back := orDefault(capacity, 500), orDefault(reward, 1)
		costs := map[bool]int64{false: min(orDefault(cost, 14), size), true: min(orDefault(throttle, 5), size)}
		tokens := size
		type instant struct {
			tenth              int64
			successes, retries int
		}
		owed := 0.0 // successes that are missing for a retry that the window has no room for
		var past []instant
		share := func(byDefault float64) float64 {
			switch {
			case ratio == 0:
				return byDefault
			case !(ratio > 0):
				return 0
			}
			return ratio
		}
		for _, op := range ops[:min(len(ops), 1000)] {
			tenth := v.Now().Unix()
			throttled := op&8 != 0
			class := retry.Transient
			if throttled {
				class = retry.Throttled
			}
			switch op % 8 {
			case 2, 3, 4:
				want := costs[throttled] <= tokens && size > 0
				if got := token.Withdraw(retry.Withdrawal{Class: class, Retry: 1}); got != want {
					t.Fatalf("Token with %d tokens: Withdraw = %v", tokens, got)
				}
				if want {
					tokens -= costs[throttled]
				}
				successes, retries := 0, 0
				for _, i := range past {
					if i.tenth > tenth-11 {
						successes += i.successes
						retries += i.retries
					}
				}
				room := share(.1)*float64(successes) + 1e-9
				want = float64(retries+1) <= room
				if share(.1) > 0 && room < 1 && retries == 0 && owed <= 0 {
					want, owed = true, (1-1e-9)/share(.1)
				}
				if got := rate.Withdraw(retry.Withdrawal{Class: class, Retry: 1}); got != want {
					t.Fatalf("Ratio with %d retries for %d successes, %v short: Withdraw = %v", retries, successes, owed, got)
				}
				if want {
					past = append(past, instant{tenth, 0, 1})
				}
			case 5, 6:
				ok := op%8 == 5
				token.End(retry.Outcome{Retried: class, Retries: 1, Sent: 1, OK: ok})
				rate.End(retry.Outcome{Retried: class, Retries: 1, Sent: 1, OK: ok})
				if ok {
					past = append(past, instant{tenth, 1, 0})
					owed--
					tokens = min(tokens+costs[throttled], size)
				}
			case 7:
				token.End(retry.Outcome{OK: true})
				tokens = min(tokens+back, size)
				v.Advance(time.Duration(op) * 50 * ms)
			}
			for _, b := range []interface{ Balance() float64 }{token, rate} {
				if left := b.Balance(); !(left >= 0 && left <= 1) {
					t.Fatalf("%T: the balance is %v, want it in [0,1]", b, left)
				}
			}
		}
	})
}
