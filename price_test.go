package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/budgettest"
)

// overloads ends n runs that have failed after a retry after a timeout.
func overloads(b retry.Budget, n int) {
	for range n {
		b.End(retry.Outcome{Retried: retry.TimedOut, Retries: 1, Sent: 1, Clock: clockx.System()})
	}
}

// A run that its budget ends says what the retry would have cost, and what was left then.
func TestABudgetThatRefusesSaysThePrice(t *testing.T) {
	busy := retry.After(errors.New("busy"), 0)
	for name, tt := range map[string]struct {
		budget func() retry.Budget
		err    error
		want   string // after "op: gave up after "
	}{
		"the first hang of a process": {func() retry.Budget { return new(retry.EarnedBudget) }, retry.ErrAttemptTimeout,
			"1 attempt in 0s (budget: a retry after a timeout costs 10 tokens, 9 are left): retry: attempt timed out"},
		"hangs in an overload": {func() retry.Budget { b := new(retry.EarnedBudget); overloads(b, 2); return b }, retry.ErrAttemptTimeout,
			"1 attempt in 0s (budget: a retry after a timeout costs 40 tokens, 9 are left): retry: attempt timed out"},
		"refusals in an overload": {func() retry.Budget { b := new(retry.EarnedBudget); overloads(b, 4); return b }, busy,
			"1 attempt in 0s (budget: a retry after a throttled error costs 32 tokens, 9 are left): busy"},
		"an outage": {func() retry.Budget { return new(retry.EarnedBudget) }, errDown,
			"5 attempts in 15s (budget: a retry costs 2 tokens, 1 is left): down"},
		"an outage after three calls": {func() retry.Budget {
			b := new(retry.EarnedBudget)
			budgettest.Succeed(budgettest.Timed(b, nil), 3)
			return b
		}, errDown,
			"5 attempts in 15s (budget: a retry costs 2 tokens, 1.3 are left): down"},
		"nothing was sent": {func() retry.Budget { return new(retry.EarnedBudget) }, dial(viaSyscall(111)),
			"5 attempts in 15s (budget: a retry costs 2 tokens, 1 is left): "},
		"Token": {func() retry.Budget { return &budget.Token{Capacity: 30} }, errDown,
			"3 attempts in 3s (budget: a retry costs 14 tokens, 2 are left): down"},
		"Token, throttled": {func() retry.Budget { return &budget.Token{Capacity: 9} }, busy,
			"2 attempts in 1s (budget: a retry after a throttled error costs 5 tokens, 4 are left): busy"},
		"Token, nothing": {func() retry.Budget { return &budget.Token{Capacity: -1} }, errDown,
			"1 attempt in 0s (budget: a retry costs 14 tokens, 0 are left): down"},
		"Ratio": {func() retry.Budget { return new(budget.Ratio) }, errDown,
			"2 attempts in 1s (budget: a retry costs 1 token, 0 are left): down"},
		"by key": {func() retry.Budget { return new(retry.PerKey[retry.EarnedBudget]).For("host") }, retry.ErrAttemptTimeout,
			"1 attempt in 0s (budget: a retry after a timeout costs 10 tokens, 9 are left): retry: attempt timed out"},
		"one's own":                        {func() retry.Budget { return priced{price: 3, left: .5} }, errDown, "1 attempt in 0s (budget: a retry costs 3 tokens, 0.5 are left): down"},
		"one's own, in debt":               {func() retry.Budget { return priced{price: 1, left: -2} }, errDown, "1 attempt in 0s (budget: a retry costs 1 token, 0 are left): down"},
		"one's own that has enough by now": {func() retry.Budget { return priced{price: 3, left: 3} }, errDown, "1 attempt in 0s (budget): down"},
		"one's own that costs nothing":     {func() retry.Budget { return priced{} }, errDown, "1 attempt in 0s (budget): down"},
		"one's own, of no numbers":         {func() retry.Budget { return priced{price: math.NaN(), left: 1} }, errDown, "1 attempt in 0s (budget): down"},
		"one's own, without an end":        {func() retry.Budget { return priced{price: math.Inf(1)} }, errDown, "1 attempt in 0s (budget): down"},
		"one's own without a price":        {func() retry.Budget { return &countingBudget{refuse: true} }, errDown, "1 attempt in 0s (budget): down"},
		"a type around one that refuses":   {func() retry.Budget { return strictBudget{new(retry.EarnedBudget)} }, errDown, "1 attempt in 0s (budget): down"},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
				p.Budget, p.MaxAttempts = tt.budget(), 9
				seen := record(&p)
				err := run(t.Context(), p, func(context.Context) error { return tt.err })
				if !strings.HasPrefix(err.Error(), "op: gave up after "+tt.want) {
					t.Errorf("%v\nwant op: gave up after %s", err, tt.want)
				}
				e := wantReason(t, err, retry.ReasonBudget)
				if seen.summary.Err != err {
					t.Errorf("Hooks.Done got %v, want the same error", seen.summary.Err)
				}
				if says := strings.Contains(tt.want, "costs"); says != (e.Cause != nil) {
					t.Errorf("the cause is %v, want one: %v", e.Cause, says)
				}
			})
		})
	}
}

// priced is a budget of one's own that refuses, and says what a retry costs.
type priced struct{ price, left float64 }

func (priced) Withdraw(retry.Withdrawal) bool { return false }
func (priced) End(retry.Outcome)              {}

func (b priced) Price(retry.Withdrawal) (price, left float64) { return b.price, b.left }

// strictBudget refuses for a reason that the budget in it does not know.
type strictBudget struct{ *retry.EarnedBudget }

func (strictBudget) Withdraw(retry.Withdrawal) bool { return false }

// The error is of the moment at which the budget has refused. What happens later does not
// change it.
func TestThePriceInAnErrorIsThatOfTheRefusal(t *testing.T) {
	b := new(retry.EarnedBudget)
	p, v := virtual()
	p.Budget = b
	err := retry.Run(t.Context(), p, func(context.Context) error { return retry.ErrAttemptTimeout })
	budgettest.Succeed(budgettest.Timed(b, v), 100)
	overloads(budgettest.Timed(b, v), 4)
	if want := "op: gave up after 1 attempt in 0s (budget: a retry after a timeout costs 10 tokens, 9 are left): retry: attempt timed out"; err.Error() != want {
		t.Errorf("later: %v\nwant %s", err, want)
	}
}

// The same text is in what is logged, and in the decision of a Loop.
func TestThePriceIsLogged(t *testing.T) {
	const want = "(budget: a retry after a timeout costs 10 tokens, 9 are left)"
	var log bytes.Buffer
	p, v := virtual()
	p.Budget, p.Hooks = new(retry.EarnedBudget), retry.SlogHooks(slog.New(slog.NewTextHandler(&log, nil)))
	_ = retry.Run(t.Context(), p, func(context.Context) error { return retry.ErrAttemptTimeout })
	if !strings.Contains(log.String(), want) {
		t.Errorf("%s\nwant %s", &log, want)
	}
	loop := p.Start(v.Now())
	loop.Next(v.Now(), retry.ErrAttemptTimeout)
	if err := loop.Err(); !strings.Contains(err.Error(), want) {
		t.Errorf("a Loop: %v\nwant %s", err, want)
	}
}

// What a budget says is no error of the operation: it changes neither what the error of the run
// is nor what an outer run does with it.
func TestThePriceIsNoErrorOfTheOperation(t *testing.T) {
	for _, opErr := range []error{errDown, retry.ErrAttemptTimeout, dial(viaSyscall(111)), hinted(time.Second), status(503)} {
		p, _ := virtual()
		ended := func(b retry.Budget) *retry.Error {
			p.Budget = b
			return wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { return opErr }), retry.ReasonBudget)
		}
		silent, says := ended(&countingBudget{refuse: true}), ended(priced{price: 1})
		if says.Cause == nil || silent.Cause != nil {
			t.Fatalf("the causes are %v and %v, want only the second", silent.Cause, says.Cause)
		}
		if got, want := (retry.Policy{}).Judge(says), (retry.Policy{}).Judge(silent); got.Class != want.Class || got.Hint != want.Hint || got.Undone != want.Undone || got.Answered != want.Answered {
			t.Errorf("%v is judged as %+v, want %+v", opErr, got, want)
		}
		if retry.Final(says) != retry.Final(silent) || says.Timeout() != silent.Timeout() || says.Last() != opErr || errors.Is(says, context.DeadlineExceeded) != errors.Is(silent, context.DeadlineExceeded) {
			t.Errorf("%v: with a price it is another error", opErr)
		}
	}
}

// Price changes nothing, and agrees with Withdraw.
func TestPriceAgreesWithWithdraw(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	b := new(retry.EarnedBudget)
	on := budgettest.Timed(b, v)
	classes := []retry.Class{retry.Transient, retry.Throttled, retry.TimedOut, retry.Unprocessed}
	for i := range 20_000 {
		c := classes[i%len(classes)]
		w := retry.Withdrawal{Class: c, Retry: 1, Clock: v}
		price, left := b.Price(w)
		if again, still := b.Price(w); again != price || still != left {
			t.Fatalf("Price(%v) = %v, %v, and then %v, %v", c, price, left, again, still)
		}
		if got := on.Withdraw(w); got != (left >= price) {
			t.Fatalf("Withdraw(%v) = %v, though it costs %v of %v", c, got, price, left)
		} else if _, after := b.Price(w); got && math.Abs(left-price-after) > 1e-9 {
			t.Fatalf("a retry for %v leaves %v of %v", price, after, left)
		}
		switch i % 7 {
		case 0:
			v.Advance(time.Duration(i%50) * 100 * time.Millisecond)
		case 1:
			b.End(retry.Outcome{Retried: c, Retries: 1, Sent: 1, OK: i%3 == 0, Clock: v})
		case 2, 3:
			budgettest.Succeed(on, i%40)
		}
	}
	var none *retry.EarnedBudget
	if price, left := none.Price(retry.Withdrawal{Class: retry.TimedOut, Clock: v}); price != 0 || !math.IsInf(left, 1) {
		t.Errorf("without a budget a retry costs %v of %v, want 0 of +Inf", price, left)
	}
}

// Whatever other runs do meanwhile, no error says that there was enough.
func TestNoErrorSaysThatThereWasEnough(t *testing.T) {
	b := new(retry.EarnedBudget)
	var said atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Budget: b}
			for i := range 5000 {
				calls := 0
				err := retry.Run(t.Context(), p, func(context.Context) error {
					if calls++; i%3 != 0 && calls == 1 {
						return retry.ErrAttemptTimeout
					}
					return nil
				})
				if err == nil {
					continue
				}
				var price, left float64
				cause := err.(*retry.Error).Cause
				if cause == nil { // by now there is enough
					continue
				}
				if _, scanErr := fmt.Sscanf(cause.Error(), "a retry after a timeout costs %g tokens, %g", &price, &left); scanErr != nil || left >= price {
					t.Errorf("%v, %v", err, scanErr)
					return
				}
				said.Add(1)
			}
		})
	}
	if wg.Wait(); said.Load() == 0 {
		t.Error("no error says anything")
	}
}

// A run that its budget ends costs one allocation more, and no other run does.
func TestThePriceAllocatesOnlyWhereABudgetRefuses(t *testing.T) {
	p, _ := virtual()
	measure := func(b retry.Budget) float64 {
		p.Budget = b
		return testing.AllocsPerRun(1000, func() { _ = retry.Run(t.Context(), p, func(context.Context) error { return errFlaky }) })
	}
	if silent, says := measure(&countingBudget{refuse: true}), measure(&budget.Token{Capacity: -1}); says != silent+1 {
		t.Errorf("%v allocations, want %v and one", says, silent)
	}
}
