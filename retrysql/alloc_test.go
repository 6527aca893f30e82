package retrysql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// byHand is what people write when they do not retry.
func byHand(ctx context.Context, db *sql.DB, fn func(context.Context, *sql.Tx) (int, error)) (int, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	v, err := fn(ctx, tx)
	if err != nil {
		return 0, err
	}
	return v, tx.Commit()
}

func nothing(context.Context, *sql.Tx) (int, error) { return 7, nil }

// noTx is a transaction that costs nothing.
type noTx struct{}

func begun(context.Context) (noTx, error)     { return noTx{}, nil }
func (noTx) Commit(context.Context) error     { return nil }
func (noTx) Rollback(context.Context) error   { return nil }
func noop(context.Context, noTx) (int, error) { return 7, nil }

var policies = map[string]retry.Policy{
	"zero policy":     {},
	"all set":         {Name: "x", Classify: retrysql.Repeatable, Budget: &retry.TokenBudget{}, Hooks: retry.SlogHooks(nil)},
	"must not repeat": {Name: "x", NonIdempotent: true, Budget: &retry.TokenBudget{}, Hooks: retry.SlogHooks(nil)},
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx := t.Context()
	db := openIdle(t, idle{})
	bare := allocs(func() { _, _ = byHand(ctx, db, nothing) })
	for name, want := range map[string]float64{"zero policy": 1, "all set": 2, "must not repeat": 3} {
		p := policies[name]
		if got := allocs(func() { _, _ = retrysql.Tx(ctx, db, p, nil, nothing) }) - bare; got > want {
			t.Errorf("%s: Tx makes %v allocations more than by hand, want at most %v", name, got, want)
		}
		if got := allocs(func() { _, _ = retrysql.TxOf(ctx, p, begun, noop) }); got != want {
			t.Errorf("%s: TxOf makes %v allocations, want %v", name, got, want)
		}
	}
}

// allocs is the least of several counts: database/sql has a goroutine for each
// transaction, and now and then one of them allocates.
func allocs(f func()) float64 {
	least := testing.AllocsPerRun(200, f)
	for range 9 {
		least = min(least, testing.AllocsPerRun(200, f))
	}
	return least
}

// The difference between the first two rows is what Tx costs. The others are that
// alone, around a transaction that costs nothing.
func BenchmarkTransaction(b *testing.B) {
	ctx := b.Context()
	db := openIdle(b, idle{})
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = byHand(ctx, db, nothing)
		}
	})
	b.Run("Tx", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = retrysql.Tx(ctx, db, retry.Policy{}, nil, nothing)
		}
	})
	for _, name := range []string{"zero policy", "all set", "must not repeat"} {
		p := policies[name]
		b.Run("TxOf nothing/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = retrysql.TxOf(ctx, p, begun, noop)
			}
		})
	}
}
