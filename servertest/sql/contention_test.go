package sql_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// stubborn is a policy for transactions that are in each other's way.
var stubborn = retry.Policy{Name: "test", MaxAttempts: retry.Unlimited, MaxElapsed: 2 * time.Minute, Backoff: retry.Exponential{Base: 2 * time.Millisecond, Max: 100 * time.Millisecond}}

// counts is how many increments count makes: ten by each goroutine.
const counts = 8 * 10

// count has 8 goroutines increment a counter, and returns how many increments it has
// counted, and for how many there was no error. All have read before the first one
// writes: at least seven are in the way of another.
func count(t *testing.T, db *database, p retry.Policy) (counted, succeeded int) {
	var all sync.WaitGroup
	var oks atomic.Int32
	read := newBarrier(8)
	for range 8 {
		all.Go(func() {
			for i := range counts / 8 {
				_, err := db.tx(t.Context(), p, func(ctx context.Context, tx tx) (int, error) {
					n, err := tx.number(ctx, "SELECT n FROM counter WHERE id = 1")
					if err != nil {
						return 0, err
					}
					if i == 0 && retry.AttemptNumber(ctx) == 1 {
						read.wait(ctx)
					}
					return n, tx.exec(ctx, fmt.Sprintf("UPDATE counter SET n = %d WHERE id = 1", n+1))
				})
				if err == nil {
					oks.Add(1)
				} else if p.MaxAttempts != 1 {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return db.number(t, "SELECT n FROM counter WHERE id = 1"), int(oks.Load())
}

func TestCounterUnderContention(t *testing.T) {
	onPostgreSQL(t, func(t *testing.T, db *database) {
		if n, ok := count(t, db, stubborn); n != counts || ok != counts {
			t.Errorf("counted %d of %d, want %d", n, ok, counts)
		}
	})
}

func TestCounterWithoutRetriesLosesSome(t *testing.T) {
	onPostgreSQL(t, func(t *testing.T, db *database) {
		if n, ok := count(t, db, retry.Policy{MaxAttempts: 1}); n != ok || n > counts-7 {
			t.Errorf("counted %d of %d, want the same, and at least 7 of %d lost", n, ok, counts)
		}
	})
}

// With its snapshots isolated, as they are by default from 11.6.2 on, MariaDB rolls a transaction
// back that changes what another one has changed since it began.
func TestSnapshotConflicts(t *testing.T) {
	onMariaDB(t, func(t *testing.T, db *database) {
		if _, err := db.admin.ExecContext(t.Context(), "SET GLOBAL innodb_snapshot_isolation = ON"); err != nil {
			t.Skip(err) // an older server
		}
		t.Cleanup(func() { _, _ = db.admin.Exec("SET GLOBAL innodb_snapshot_isolation = DEFAULT") })
		var conflicts, others atomic.Int32
		p := stubborn
		p.Hooks.Wait = func(_ context.Context, a retry.Attempt) {
			if e, ok := errors.AsType[*mysql.MySQLError](a.Err); ok && e.Number == 1020 {
				conflicts.Add(1)
			} else if !ok || e.Number != 1213 {
				others.Add(1)
			}
		}
		var all sync.WaitGroup
		var done atomic.Int32
		for range 8 {
			all.Go(func() {
				for range 25 {
					_, err := db.tx(t.Context(), p, func(ctx context.Context, tx tx) (int, error) {
						n, err := tx.number(ctx, "SELECT n FROM counter WHERE id = 1")
						if err != nil {
							return 0, err
						}
						return n, tx.exec(ctx, fmt.Sprintf("UPDATE counter SET n = %d WHERE id = 1", n+1))
					})
					if err != nil {
						t.Error(err)
						continue
					}
					done.Add(1)
				}
			})
		}
		all.Wait()
		if n := db.number(t, "SELECT n FROM counter WHERE id = 1"); n != 200 || done.Load() != 200 {
			t.Errorf("counted %d of %d, want 200", n, done.Load())
		}
		if t.Logf("%d snapshot conflicts", conflicts.Load()); conflicts.Load() == 0 || others.Load() > 0 {
			t.Errorf("%d snapshot conflicts, and %d other errors but deadlocks", conflicts.Load(), others.Load())
		}
	})
}

func TestDeadlocks(t *testing.T) {
	onMariaDB(t, func(t *testing.T, db *database) {
		var repeated atomic.Int32
		p := stubborn
		p.Hooks.Wait = func(_ context.Context, a retry.Attempt) {
			if a.Class != retry.Unprocessed {
				t.Errorf("%v is %v, want unprocessed", a.Err, a.Class)
			}
			repeated.Add(1)
		}
		locked := newBarrier(2)
		both := func(from, to int) {
			var all sync.WaitGroup
			for i := from; i < to; i++ {
				all.Go(func() {
					_, err := db.tx(t.Context(), p, func(ctx context.Context, tx tx) (int, error) {
						first := i%2 + 1
						if err := tx.exec(ctx, fmt.Sprintf("UPDATE counter SET n = n + 1 WHERE id = %d", first)); err != nil {
							return 0, err
						}
						if i < 2 && retry.AttemptNumber(ctx) == 1 {
							locked.wait(ctx)
						}
						return 0, tx.exec(ctx, fmt.Sprintf("UPDATE counter SET n = n + 1 WHERE id = %d", 3-first))
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		both(0, 2) // a certain deadlock
		both(2, 50)
		both(50, 100)
		for id := 1; id <= 2; id++ {
			if n := db.number(t, fmt.Sprintf("SELECT n FROM counter WHERE id = %d", id)); n != 100 {
				t.Errorf("row %d is at %d, want 100", id, n)
			}
		}
		if repeated.Load() == 0 {
			t.Error("there was no deadlock")
		}
	})
}

// A COMMIT that waits too long for a lock is one that MariaDB rolls back.
func TestLockWaitTimeoutAtCommit(t *testing.T) {
	onMariaDB(t, func(t *testing.T, db *database) {
		lock, err := db.admin.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		var errs []error
		p := quick
		p.NonIdempotent = true
		p.Hooks.Wait = func(ctx context.Context, a retry.Attempt) {
			errs = append(errs, a.Err)
			if _, err := lock.ExecContext(ctx, "UNLOCK TABLES"); err != nil {
				t.Error(err)
			}
		}
		v, err := db.tx(t.Context(), p, func(ctx context.Context, tx tx) (int, error) {
			if err := tx.exec(ctx, "SET SESSION lock_wait_timeout = 1"); err != nil {
				return 0, err
			}
			v, err := insert(ctx, tx)
			if retry.AttemptNumber(ctx) == 1 {
				if _, err := lock.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK"); err != nil {
					return 0, retry.Stop(err)
				}
			}
			return v, err
		})
		if v != 7 || err != nil || len(errs) != 1 {
			t.Errorf("%d, %v after %v", v, err, errs)
		}
		db.wantRows(t, 1)
	})
}

func TestSQLiteReadThenWrite(t *testing.T) {
	const callers = 24 // more than there are connections; one wins at a time, so the time grows with the square
	onSQLite(t, func(t *testing.T, db *database) {
		var all, both sync.WaitGroup
		var repeated, reads atomic.Int32
		both.Add(2) // who have read before either writes, however fast the machine is
		p := stubborn
		p.Hooks.Wait = func(context.Context, retry.Attempt) { repeated.Add(1) }
		for range callers {
			all.Go(func() {
				_, err := db.tx(t.Context(), p, func(ctx context.Context, tx tx) (int, error) {
					n, err := tx.number(ctx, "SELECT n FROM counter WHERE id = 1")
					if err != nil {
						return 0, err
					}
					if reads.Add(1) <= 2 {
						both.Done()
						both.Wait()
					}
					return n, tx.exec(ctx, fmt.Sprintf("UPDATE counter SET n = %d WHERE id = 1", n+1))
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := db.number(t, "SELECT n FROM counter WHERE id = 1"); n != callers || repeated.Load() == 0 {
			t.Errorf("counted %d with %d retries, want %d, and some", n, repeated.Load(), callers)
		}
	})
}

// A reader keeps a writer from its COMMIT. The writer repeats its transaction until
// the reader has gone.
func TestSQLiteBusyAtCommit(t *testing.T) {
	onSQLite(t, func(t *testing.T, db *database) {
		reader, err := db.admin.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Rollback()
		if _, err := (sqlTx{reader}).number(t.Context(), "SELECT n FROM counter WHERE id = 1"); err != nil {
			t.Fatal(err)
		}
		p := stubborn
		p.NonIdempotent = true
		waits := 0
		p.Hooks.Wait = func(_ context.Context, a retry.Attempt) {
			if _, ok := errors.AsType[*retrysql.CommitError](a.Err); ok || a.Class != retry.Unprocessed {
				t.Errorf("%v is %v, want unprocessed", a.Err, a.Class)
			}
			if waits++; waits == 3 {
				if err := reader.Rollback(); err != nil {
					t.Error(err)
				}
			}
		}
		v, err := db.tx(t.Context(), p, insert)
		if v != 7 || err != nil || waits != 3 {
			t.Errorf("%d, %v after %d waits, want 7 after 3", v, err, waits)
		}
		db.wantRows(t, 1)
	})
}

// barrier lets nobody pass before all have come.
type barrier struct {
	missing atomic.Int32
	open    chan struct{}
}

func newBarrier(n int32) *barrier {
	b := &barrier{open: make(chan struct{})}
	b.missing.Store(n)
	return b
}

func (b *barrier) wait(ctx context.Context) {
	if b.missing.Add(-1) == 0 {
		close(b.open)
	}
	select {
	case <-b.open:
	case <-ctx.Done():
	}
}

// eventually waits until something is so. It asks seldom: MariaDB's innodb_trx shows
// what it was a moment ago as long as someone asks more than ten times a second.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	err := retry.Run(t.Context(), retry.Policy{MaxElapsed: 30 * time.Second, Backoff: retry.Schedule{5 * time.Millisecond, 150 * time.Millisecond}}, func(context.Context) error {
		if !so() {
			return retry.ErrRejected
		}
		return nil
	})
	if err != nil {
		t.Errorf("never: %s", what)
	}
}
