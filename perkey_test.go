package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/pace"
)

// While one shard is down, its budget runs out. The others keep theirs.
func ExamplePerKey() {
	var budgets retry.PerKey[retry.EarnedBudget] // in a package variable
	get := func(shard string) error {
		policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(0), Budget: budgets.For(shard)}
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
	for shard, budget := range budgets.All() {
		fmt.Printf("%s %.1f\n", shard, budget.Balance())
	}
	// Output:
	// users-6 1.0
	// users-7 0.1
	// users-8 1.0
}

func keysOf[T any](k *retry.PerKey[T]) (keys []string) {
	for key := range k.All() {
		keys = append(keys, key)
	}
	return keys
}

func TestPerKeyHasOneValueForEachKey(t *testing.T) {
	var made []string
	budgets := retry.PerKey[budget.Token]{New: func(key string) *budget.Token {
		made = append(made, key)
		return &budget.Token{Capacity: len(made)}
	}}
	for range 2 {
		for want, key := range []string{"b", "", "a"} {
			if got := budgets.For(key).Capacity; got != want+1 {
				t.Errorf("For(%q) is value %d, want %d", key, got, want+1)
			}
		}
	}
	if want := []string{"b", "", "a"}; !slices.Equal(made, want) {
		t.Errorf("New was called with %q, want %q", made, want)
	}
	var got []string
	for key, b := range budgets.All() {
		got = append(got, fmt.Sprint(key, b.Capacity))
	}
	if want := []string{"2", "a3", "b1"}; !slices.Equal(got, want) {
		t.Errorf("All: %q, want %q", got, want)
	}
	for range budgets.All() {
		break // which must not panic
	}
}

func TestPerKeyWithoutNew(t *testing.T) {
	var budgets retry.PerKey[retry.EarnedBudget]
	var paces retry.PerKey[pace.Pace]
	if a, b := budgets.For("a"), budgets.For("b"); a == nil || a == b || a != budgets.For("a") || a.Balance() != .9 {
		t.Errorf("budgets %p and %p, want one for each key", a, b)
	}
	if a, b := paces.For("a"), paces.For("b"); a == nil || a == b || a != paces.For("a") {
		t.Errorf("paces %p and %p, want one for each key", a, b)
	}
}

// What New returns is kept, also if it is nil.
func TestPerKeyKeepsNil(t *testing.T) {
	made := 0
	paces := retry.PerKey[pace.Pace]{New: func(string) *pace.Pace { made++; return nil }}
	for range 3 {
		if p := paces.For("a"); p != nil {
			t.Errorf("For returns %p, want what New returned", p)
		}
	}
	if made != 1 {
		t.Errorf("New was called %d times for one key, want 1", made)
	}
	for key, p := range paces.All() {
		if key != "a" || p != nil {
			t.Errorf("All has %q with %p, want a with nil", key, p)
		}
	}
	var err *retry.Error
	limitless := retry.PerKey[retry.EarnedBudget]{New: func(string) *retry.EarnedBudget { return nil }}
	p := retry.Policy{MaxAttempts: 20, Backoff: retry.Constant(0), Budget: limitless.For("a"), Guards: []retry.Guard{paces.For("a")}}
	if err, _ = retry.Run(t.Context(), p, func(context.Context) error { return errors.New("down") }).(*retry.Error); err == nil || err.Attempts != 20 {
		t.Errorf("with a nil budget and a nil pace: %v, want 20 attempts", err)
	}
}

func TestNilPerKeyHasNothing(t *testing.T) {
	var none *retry.PerKey[retry.EarnedBudget]
	if got := none.For("a"); got != nil {
		t.Errorf("For returned %p, want nil", got)
	}
	if got := keysOf(none); got != nil {
		t.Errorf("All has %q", got)
	}
}

// A key that was forgotten begins anew. What is listed is not used.
func TestPerKeyForgetsAKey(t *testing.T) {
	var budgets retry.PerKey[retry.EarnedBudget]
	first := budgets.For("first")
	first.Withdraw(retry.Withdrawal{Class: retry.TimedOut})
	for i := range 3 * 4096 {
		budgets.For(fmt.Sprint(i))
	}
	if got := keysOf(&budgets); slices.Contains(got, "first") || len(got) > 8192 {
		t.Errorf("%d keys, want at most 8192 without the first", len(got))
	}
	if got := budgets.For("first"); got == first || got.Balance() != .9 {
		t.Errorf("a key that comes back has %v of its budget, want .9", got.Balance())
	}
}

func TestPerKeyAllocatesNothingForAKnownKey(t *testing.T) {
	var budgets retry.PerKey[retry.EarnedBudget]
	budgets.For("host")
	wantAllocs(t, 0, func() { budgets.For("host") })
}
