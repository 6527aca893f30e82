package retrysql_test

import (
	"context"
	"database/sql"
	"math"
	"runtime"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/internal/race"
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
	"all set":         {Name: "x", Classify: retrysql.Repeatable, Budget: &budget.Token{}, Hooks: retry.SlogHooks(nil)},
	"must not repeat": {Name: "x", NonIdempotent: true, Budget: &budget.Token{}, Hooks: retry.SlogHooks(nil)},
}

func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	ctx := t.Context()
	db := openIdle(t, idle{})
	bare := allocs(func() { _, _ = byHand(ctx, db, nothing) })
	for name, p := range policies {
		if got := allocs(func() { _, _ = retrysql.Tx(ctx, p, db, nil, nothing) }) - bare; math.Round(got) > 3 { // two are database/sql's, for a connection that is held
			t.Errorf("%s: Tx makes %v allocations more than by hand, want at most 3", name, got)
		}
		if got := testing.AllocsPerRun(200, func() { _, _ = retrysql.TxOf(ctx, p, begun, noop) }); got != 1 {
			t.Errorf("%s: TxOf makes %v allocations, want 1", name, got)
		}
	}
}

// allocs is the least of several averages. database/sql starts a goroutine for each
// transaction. It lets that one end before the next call, which then reuses its
// memory: else a call would cost one allocation more, until something preempts it.
func allocs(f func()) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	least := math.Inf(1)
	for range 10 {
		const runs = 200
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			f()
			runtime.Gosched()
		}
		runtime.ReadMemStats(&after)
		least = min(least, float64(after.Mallocs-before.Mallocs)/runs)
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
			_, _ = retrysql.Tx(ctx, retry.Policy{}, db, nil, nothing)
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
