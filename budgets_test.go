package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goretry/retry"
)

// While one shard is down, its budget runs out. The others keep theirs.
func ExampleBudgets() {
	var shards retry.Budgets // in a package variable
	get := func(shard string) error {
		policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(0), Budget: shards.For(shard)}
		return retry.Run(context.Background(), policy, func(context.Context) error {
			if shard == "users-7" {
				return errors.New("down")
			}
			return nil
		})
	}
	for range 100 {
		for _, shard := range []string{"users-6", "users-7", "users-8"} {
			_ = get(shard)
		}
	}
	for shard, budget := range shards.All() {
		fmt.Printf("%s %.1f\n", shard, budget.(*retry.EarnedBudget).Balance())
	}
	// Output:
	// users-7 0.1
	// users-6 1.0
	// users-8 1.0
}

func TestBudgetsHaveOneForEachKey(t *testing.T) {
	var made []string
	budgets := retry.Budgets{New: func(key string) retry.Budget {
		made = append(made, key)
		if key == "none" {
			return nil
		}
		return &retry.TokenBudget{}
	}}
	a, b := budgets.For("a"), budgets.For("b")
	if a == b || budgets.For("a") != a || budgets.For("b") != b {
		t.Error("two keys share a budget, or one has two")
	}
	for range 2 {
		if budgets.For("none") != nil {
			t.Error("a budget for a part for which New returned nil")
		}
	}
	if want := []string{"a", "b", "none"}; !slices.Equal(made, want) {
		t.Errorf("New was called for %q, want %q", made, want)
	}
	var zero retry.Budgets
	if b, ok := zero.For("").(*retry.EarnedBudget); !ok || b.Balance() != .9 {
		t.Errorf("the zero value made %T, want a new EarnedBudget", zero.For(""))
	}
}

// untold is a budget without a method Balance.
type untold struct{ retry.Budget }

// A service may have none: then a door asks Policy.Budget.
func TestNilBudgetsHaveNone(t *testing.T) {
	var none *retry.Budgets
	if got := none.For("a"); got != nil {
		t.Errorf("For returned %v, want nil", got)
	}
	for key := range none.All() {
		t.Errorf("All has %q", key)
	}
	if got := none.Balance(); got != 1 {
		t.Errorf("Balance %v, want 1", got)
	}
}

func TestBudgetsAreListedByBalance(t *testing.T) {
	var budgets retry.Budgets
	if got := budgets.Balance(); got != 1 {
		t.Errorf("without a budget the balance is %v, want 1", got)
	}
	budgets.New = func(key string) retry.Budget {
		switch b := (&retry.TokenBudget{Capacity: 4, Cost: 1}); key {
		case "none":
			return nil
		case "untold":
			return untold{b}
		default:
			for range len(key) - 1 {
				b.Withdraw(retry.Withdrawal{Class: retry.Transient})
			}
			return b
		}
	}
	if budgets.For("untold"); budgets.Balance() != 1 {
		t.Errorf("without a budget that has a balance it is %v", budgets.Balance())
	}
	alone := retry.Budgets{New: budgets.New}
	if alone.For("aaa"); alone.Balance() != .5 {
		t.Errorf("the balance of the only budget is %v, want .5", alone.Balance())
	}
	for _, key := range []string{"b", "aaa", "none", "a", "aa"} {
		budgets.For(key)
	}
	var got []string
	for key, b := range budgets.All() {
		if b != budgets.For(key) {
			t.Errorf("%s has another budget in the list", key)
		}
		got = append(got, key)
	}
	if want := []string{"aaa", "aa", "a", "b", "untold"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	for range budgets.All() {
		break // which must not panic
	}
	if budgets.Balance() != .5 {
		t.Errorf("the lowest balance is %v, want .5", budgets.Balance())
	}
}
