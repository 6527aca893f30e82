package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/proxytest"
	"github.com/goretry/retry/retrysql"
)

// emptyAfterTimeout returns hooks that empty a pool after an attempt has timed out, at most
// once a second: a database that is only slow has to connect again, too.
func emptyAfterTimeout(empty func()) retry.Hooks {
	var latest atomic.Int64 // second in which the pool was emptied
	return retry.Hooks{AttemptDone: func(_ context.Context, a retry.Attempt) {
		if a.Class != retry.TimedOut {
			return
		}
		if now := a.Start.Add(a.Duration).Unix(); latest.Swap(now) != now {
			empty()
		}
	}}
}

// emptyPool closes the idle connections of a pool that keeps up to idle of them. A driver's
// Close may wait for the server, so the attempts do not wait for it.
func emptyPool(db *sql.DB, idle int) {
	go func() {
		db.SetMaxIdleConns(-1)
		db.SetMaxIdleConns(idle)
	}()
}

// After a failover all idle connections of a pool may be dead. With pgxpool call Reset. It
// needs a server.
func Example_failover() {
	const idle = 12
	db, err := sql.Open("pgx", "postgres://localhost/bank")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxIdleConns(idle)
	policy := retry.Policy{
		Name:           "transfer",
		AttemptTimeout: time.Second,
		Hooks:          emptyAfterTimeout(func() { emptyPool(db, idle) }),
	}
	_, err = retrysql.Tx(context.Background(), policy, db, nil, func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE name = 'ada'")
		return 0, err
	})
	fmt.Println(err)
}

// A pool of twelve dead connections costs a call one attempt if the first timeout empties it.
// Otherwise the attempts take one after the other.
func TestPoolAfterAFailover(t *testing.T) {
	for name, tt := range map[string]struct {
		fault   proxytest.Fault
		emptied bool
	}{
		"silent":              {proxytest.Silent, true},
		"dropped":             {proxytest.Dropped, true},
		"silent, not emptied": {proxytest.Silent, false},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.fault == proxytest.Dropped && !proxytest.CanDrop {
				t.Skip("the system cannot drop packets")
			}
			onServers(t, func(t *testing.T, db *database) {
				if db.name == "pq" {
					t.Skip("its statements do not end with the context")
				}
				testFailover(t, db, tt.fault, tt.emptied)
			})
		})
	}
}

func testFailover(t *testing.T, db *database, fault proxytest.Fault, emptied bool) {
	fill(t, db, 12)
	defer db.proxy.Strike(proxytest.Cut) // some drivers' Close waits for the server
	db.proxy.Strike(fault)
	p := quick
	p.MaxAttempts, p.AttemptTimeout = 4, 500*time.Millisecond
	if emptied {
		p.Hooks = emptyAfterTimeout(db.empty)
	}
	attempts := 0
	p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{AttemptDone: func(context.Context, retry.Attempt) { attempts++ }})
	_, err := db.tx(t.Context(), p, insert)
	if emptied && (err != nil || attempts != 2) {
		t.Errorf("after %d attempts: %v", attempts, err)
	}
	if !emptied && attempts < 3 {
		t.Errorf("%d attempts suffice: %v", attempts, err)
	}
}

// fill has the pool open n connections.
func fill(t *testing.T, db *database, n int) {
	var begun, all sync.WaitGroup
	begun.Add(n)
	for range n {
		all.Go(func() {
			_, _ = db.tx(t.Context(), quick, func(ctx context.Context, tx tx) (int, error) {
				v, err := tx.number(ctx, "SELECT 1")
				if retry.AttemptNumber(ctx) == 1 {
					begun.Done()
					begun.Wait()
				}
				return v, err
			})
		})
	}
	all.Wait()
}

// lib/pq asks the server to cancel a statement and waits for its answer, though the context
// has ended. Tx waits with it: the function it called is still running.
func TestStatementOfPqOutlastsItsContext(t *testing.T) {
	onPostgreSQL(t, func(t *testing.T, db *database) {
		if db.name != "pq" {
			t.Skip("only lib/pq does that")
		}
		fill(t, db, 1)
		db.proxy.Strike(proxytest.Silent)
		p := quick
		p.MaxAttempts, p.AttemptTimeout = 1, 100*time.Millisecond
		var ended atomic.Bool
		time.AfterFunc(time.Second, func() {
			ended.Store(true)
			db.proxy.Strike(proxytest.Cut)
		})
		_, err := db.tx(t.Context(), p, insert)
		if err == nil || !ended.Load() {
			t.Errorf("%v before the connection has ended", err)
		}
	})
}
