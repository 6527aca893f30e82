package budget_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/budgettest"
)

// priced is a budget that says what a retry costs, as all of this package do.
type priced interface {
	budgettest.Budget
	Price(retry.Withdrawal) (price, left float64)
}

func TestPrices(t *testing.T) {
	for name, tt := range map[string]struct {
		b     priced
		after func(retry.Budget)
		class retry.Class
		retry int
		want  string
	}{
		"Token":                           {new(budget.Token), nil, retry.Transient, 1, "14 of 500"},
		"Token, throttled":                {new(budget.Token), nil, retry.Throttled, 1, "5 of 500"},
		"Token, after a timeout":          {new(budget.Token), nil, retry.TimedOut, 1, "14 of 500"},
		"Token, a cost above Capacity":    {&budget.Token{Capacity: 10}, nil, retry.Transient, 1, "10 of 10"},
		"Token, which has been used":      {new(budget.Token), func(b retry.Budget) { budgettest.Granted(b, 3, retry.Transient) }, retry.Transient, 1, "14 of 458"},
		"Token that grants nothing":       {&budget.Token{Capacity: -1}, nil, retry.Throttled, 1, "5 of 0"},
		"Ratio, which lends one":          {new(budget.Ratio), nil, retry.Transient, 1, "1 of 1"},
		"Ratio, which has lent one":       {new(budget.Ratio), func(b retry.Budget) { budgettest.Granted(b, 1, retry.Transient) }, retry.Transient, 1, "1 of 0"},
		"Ratio after 39 successes":        {new(budget.Ratio), func(b retry.Budget) { budgettest.Succeed(b, 39) }, retry.Transient, 1, "1 of 3"},
		"Ratio, two of three are used":    {new(budget.Ratio), func(b retry.Budget) { budgettest.Succeed(b, 39); budgettest.Granted(b, 2, retry.Transient) }, retry.Transient, 1, "1 of 1"},
		"a nil Token grants all":          {(*budget.Token)(nil), nil, retry.Transient, 1, "0 of +Inf"},
		"a nil Ratio grants all":          {(*budget.Ratio)(nil), nil, retry.Transient, 1, "0 of +Inf"},
		"Token, of more than a float has": {&budget.Token{Capacity: math.MaxInt, Cost: math.MaxInt32}, nil, retry.Transient, 1, fmt.Sprintf("%v of %v", float64(math.MaxInt32), float64(math.MaxInt))},
	} {
		v := clockx.NewVirtual(epoch)
		if tt.after != nil {
			tt.after(budgettest.Timed(tt.b, v))
		}
		price, left := tt.b.Price(retry.Withdrawal{Class: tt.class, Retry: tt.retry, Clock: v})
		if got := fmt.Sprintf("%v of %v", price, left); got != tt.want {
			t.Errorf("%s: a retry costs %s, want %s", name, got, tt.want)
		}
	}
}

// A retry is granted if what is left is enough for the price, and Price changes nothing.
func TestPricesAgreeWithWithdraw(t *testing.T) {
	for name, fresh := range map[string]func() priced{
		"Token":                       func() priced { return &budget.Token{Capacity: 60} },
		"Token without a cost":        func() priced { return &budget.Token{Capacity: 9, Cost: -1} },
		"Ratio":                       func() priced { return new(budget.Ratio) },
		"Ratio that grants with time": func() priced { return &budget.Ratio{Ratio: .3, MinPerSecond: .25} },
		"Ratio that lends nothing":    func() priced { return &budget.Ratio{Ratio: -1, MinPerSecond: .5} },
	} {
		v, rnd := clockx.NewVirtual(epoch), rand.New(rand.NewPCG(1, 2))
		b := fresh()
		var runs []int // retries of each
		asked := 0
		for range 20_000 {
			switch {
			case len(runs) == 0, len(runs) < 20 && rnd.IntN(5) == 0:
				runs = append(runs, 0)
			case rnd.IntN(3) == 0:
				i := rnd.IntN(len(runs))
				o := retry.Outcome{Retries: runs[i], OK: rnd.IntN(2) == 0, Clock: v}
				if runs[i] > 0 {
					o.Retried = retry.Transient
				}
				b.End(o)
				runs = append(runs[:i], runs[i+1:]...)
			case rnd.IntN(4) == 0:
				v.Advance(time.Duration(rnd.IntN(2000)) * ms)
			default:
				i := rnd.IntN(len(runs))
				w := retry.Withdrawal{Class: []retry.Class{retry.Transient, retry.Throttled, retry.TimedOut}[rnd.IntN(3)], Retry: runs[i] + 1, Clock: v}
				price, left := b.Price(w)
				before := b.Balance()
				got := b.Withdraw(w)
				if asked++; got != (left >= price) || !got && b.Balance() != before {
					t.Fatalf("%s: the %dth retry costs %v of %v, and %v is granted", name, asked, price, left, got)
				}
				if got {
					runs[i]++
				}
			}
		}
	}
}
