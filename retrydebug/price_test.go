package retrydebug_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	rb "github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrydebug"
)

// costing is a budget with prices by class.
type costing struct {
	balance, left float64
	price         map[retry.Class]float64
}

func (b costing) Balance() float64 { return b.balance }

func (b costing) Price(w retry.Withdrawal) (price, left float64) { return b.price[w.Class], b.left }

// crashing is a budget whose Price panics.
type crashing struct{ observed }

func (crashing) Price(retry.Withdrawal) (price, left float64) { panic("Price") }

// Beside what is left of a budget the page shows what a retry costs: 70 % may be too little.
func TestPagePrices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := func(b retry.Budget, retries int, c retry.Class) {
			for range retries {
				b.Withdraw(retry.Withdrawal{Class: c, Retry: 1})
			}
		}
		var seven, nearly, dear retry.EarnedBudget
		spent(&seven, 1, retry.Transient)
		spent(&nearly, 4, retry.Transient)
		nearly.End(retry.Outcome{OK: true})
		dear.End(retry.Outcome{Retried: retry.TimedOut, Retries: 1, Sent: 1})
		var bucket rb.Token
		spent(&bucket, 2, retry.Transient)
		var one rb.Ratio
		one.End(retry.Outcome{OK: true})
		for _, tt := range []struct {
			name   string
			budget interface{ Balance() float64 }
			want   string // after the name
			said   string // below the headline
		}{
			{"new", new(retry.EarnedBudget), "90% left: 9 tokens; a retry costs 2, after a timeout 10", ""},
			{"seven", &seven, "70% left: 7 tokens; a retry costs 2, after a timeout 10", ""},
			{"dear", &dear, "90% left: 9 tokens; a retry costs 2, after a throttled error 4, after a timeout 20", ""},
			{"nearly", &nearly, "11% left: 1.1 tokens; a retry costs 2, after a timeout 10", "has too little left for a retry."},
			{"bucket", &bucket, "94% left: 472 tokens; a retry costs 14, after a throttled error 5", ""},
			{"ratio", &one, "100% left: 1 token; a retry costs 1", ""},
			{"fraction", costing{.05, 2.04, map[retry.Class]float64{retry.Transient: 1.01, retry.Throttled: 1.01, retry.TimedOut: 1.01}},
				"5% left: 2 tokens; a retry costs 1.1", "is almost used up."},
			{"debt", costing{0, -3, nil}, "0% left: 0 tokens; a retry costs 0", "has too little left for a retry."},
			{"none", (*retry.EarnedBudget)(nil), "100% left", ""},
			{"silent", observed{balance: .7}, "70% left", ""},
			{"crash", crashing{observed{balance: .7}}, "70% left", ""},
			{"NaN", costing{.7, math.NaN(), nil}, "70% left", ""},
			{"Inf", costing{.7, 3, map[retry.Class]float64{retry.TimedOut: math.Inf(1)}}, "70% left", ""},
		} {
			var page retrydebug.Recorder
			page.ObserveBudget("b", tt.budget)
			main := parse(t, get(t, &page, "").Body).all("main")[0].words()
			if _, got, _ := strings.Cut(main, "paces budget b "); !strings.HasPrefix(got, tt.want+" Nothing underway") {
				t.Errorf("%s: budget b %s\nwant %s", tt.name, got, tt.want)
			}
			if said := strings.Contains(main, "The budget b "); said != (tt.said != "") || !strings.Contains(main, tt.said) {
				t.Errorf("%s: %s\nwant said: %q", tt.name, main, tt.said)
			}
			r := read(t, &page)
			if g := r.Budgets[0]; (g.Price != nil) != strings.Contains(tt.want, "costs") || (g.Tokens != nil) != (g.Price != nil) {
				t.Errorf("%s: the JSON has %v tokens, and the prices %v", tt.name, g.Tokens, g.Price)
			}
		}
	})
}

func TestPricesAsJSON(t *testing.T) {
	var page retrydebug.Recorder
	b := new(retry.EarnedBudget)
	b.End(retry.Outcome{Retried: retry.Throttled, Retries: 1, Sent: 1})
	page.ObserveBudget("b", b)
	if r := read(t, &page); *r.Budgets[0].Tokens != 9 || *r.Budgets[0].Price != (prices{2, 4, 20}) {
		t.Errorf("%v tokens, prices %+v, want 9 and 2, 4, 20", *r.Budgets[0].Tokens, *r.Budgets[0].Price)
	}
}

func TestPricesOfAPerKey(t *testing.T) {
	var page retrydebug.Recorder
	var keys retry.PerKey[retry.EarnedBudget]
	keys.For("a")
	keys.For("b").Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
	retrydebug.ObservePerKey(&page, "shards", &keys)
	main := parse(t, get(t, &page, "").Body).all("main")[0].words()
	for _, want := range []string{
		"budget shards: b 70% left, the lowest of 2: 7 tokens; a retry costs 2, after a timeout 10",
		"budget shards: a 90% left: 9 tokens; a retry costs 2, after a timeout 10",
	} {
		if !strings.Contains(main, want) {
			t.Errorf("%q is not in %s", want, main)
		}
	}
	r := read(t, &page)
	if whole := r.Budgets[0]; *whole.Tokens != 7 || whole.Price.TimedOut != 10 || *whole.Worst[1].Tokens != 9 {
		t.Errorf("the JSON has %v tokens, want 7 as the worst", *whole.Tokens)
	}
}

// A run that its budget ended says on the page what the retry would have cost. What was left
// differs from run to run: they are one entry all the same.
func TestPageShowsWhatTheBudgetRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		b := new(retry.EarnedBudget)
		page.ObserveBudget("upstream", b)
		p := policy(&page, "upstream")
		p.Budget = b
		run(p.Named("well"))
		for range 3 {
			run(p, retry.ErrAttemptTimeout)
			run(p.Named("well"))
		}
		run(p, errDown, retry.ErrAttemptTimeout) // a story of two attempts
		main := parse(t, get(t, &page, "").Body).all("main")[0].words()
		for _, want := range []string{
			"upstream fails in 100% of its runs: retry: attempt timed out . They end with: budget 100%.",
			"budget upstream 74% left: 7.4 tokens; a retry costs 2, after a timeout 10",
			"upstream retry: attempt timed out budget: a retry after a timeout costs 10 tokens, 9.3 are left 10ms, 1 attempt the last of 3 like it",
			"upstream retry: attempt timed out budget: a retry after a timeout costs 10 tokens, 7.4 are left 120ms, 2 attempts, waited 100ms",
		} {
			if !strings.Contains(main, want) {
				t.Errorf("%q is not in %s", want, main)
			}
		}
		r := read(t, &page)
		if f := r.Failed[0]; len(r.Failed) != 2 || f.Cause != "a retry after a timeout costs 10 tokens, 7.4 are left" || f.Reason != "budget" {
			t.Errorf("%+v", r.Failed)
		}
		time.Sleep(time.Minute)
	})
}
