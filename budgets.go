package retry

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/goretry/retry/internal/keyed"
)

// Budgets has a budget for each part of a system that can fail alone: each host, shard or
// gRPC target, or each method with a pool of its own. Parts that are well then earn no
// retries for one that is not. The zero value is ready, and gives each part an
// [EarnedBudget].
//
//	var hosts retry.Budgets // in a package variable
//	t := &retryhttp.Transport{Policy: policy, Budget: hosts.For}
//
// It is safe for concurrent use. Set New before the first use, and do not copy it after.
// A nil Budgets has none.
type Budgets struct {
	// New makes the budget of a part when its key is first used. If it returns nil, so does
	// For, and a Transport or a Client uses Policy.Budget for that part. It is called once
	// at a time, and must not call a method of the Budgets. Nil means an EarnedBudget.
	New func(key string) Budget

	byKey keyed.Set[Budget]
}

// For returns the budget of the part with this key, the same one each time. A key may be
// forgotten after 4096 others have been used since: then it gets a new budget, as in a
// new process. There are at most 8192. That many EarnedBudgets take a megabyte.
// For a nil Budgets it returns nil.
func (b *Budgets) For(key string) Budget {
	if b == nil {
		return nil
	}
	return b.byKey.For(key, b.fresh)
}

func (b *Budgets) fresh(key string) Budget {
	if b.New == nil {
		return &EarnedBudget{}
	}
	return b.New(key)
}

// All returns the budgets that there are now, by key, with the lowest balance first. Those
// without a method Balance come last.
func (b *Budgets) All() iter.Seq2[string, Budget] {
	return func(yield func(string, Budget) bool) {
		for _, l := range b.listed() {
			if !yield(l.key, l.Budget) {
				return
			}
		}
	}
}

// Balance returns the lowest balance of all parts, at most 1.
func (b *Budgets) Balance() float64 {
	if all := b.listed(); len(all) > 0 {
		return min(all[0].balance, 1)
	}
	return 1
}

// listed is a budget in a list of all.
type listed struct {
	key string
	Budget
	balance float64 // +Inf if it tells none
}

// listed returns all budgets in the order of All.
func (b *Budgets) listed() (all []listed) {
	if b == nil {
		return nil
	}
	for key, budget := range b.byKey.All() {
		if budget == nil {
			continue
		}
		l := listed{key, budget, math.Inf(1)}
		if teller, ok := budget.(interface{ Balance() float64 }); ok {
			l.balance = teller.Balance()
		}
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(x, y listed) int { return cmp.Compare(x.balance, y.balance) })
	return all
}
