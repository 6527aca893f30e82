package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

func TestPanicRollsBack(t *testing.T) {
	onAll(t, func(t *testing.T, db *database) {
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("recovered %v, want boom", v)
				}
			}()
			_, _ = db.tx(t.Context(), quick, func(ctx context.Context, t tx) (int, error) {
				_, _ = insert(ctx, t)
				panic("boom")
			})
		}()
		db.wantRows(t, 0)
	})
}

func TestGoexitRollsBack(t *testing.T) {
	onAll(t, func(t *testing.T, db *database) {
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = db.tx(t.Context(), quick, func(ctx context.Context, t tx) (int, error) {
				_, _ = insert(ctx, t)
				runtime.Goexit()
				return 0, nil
			})
		})
		wg.Wait()
		db.wantRows(t, 0)
	})
}

func TestCancelInFnRollsBack(t *testing.T) {
	onAll(t, func(t *testing.T, db *database) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := db.tx(ctx, quick, func(ctx context.Context, t tx) (int, error) {
			defer cancel()
			return insert(ctx, t)
		})
		wantEnd(t, err, retry.ReasonCanceled, 1)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v is no context.Canceled", err)
		}
		db.wantRows(t, 0)
	})
}

func TestAttemptTimeoutRollsBackAndRepeats(t *testing.T) {
	onAll(t, func(t *testing.T, db *database) {
		p := quick
		p.MaxAttempts, p.AttemptTimeout = retry.Unlimited, 300*time.Millisecond
		runs := 0
		_, err := db.tx(t.Context(), p, func(ctx context.Context, t tx) (int, error) {
			v, err := insert(ctx, t)
			if runs++; runs == 1 {
				<-ctx.Done()
			}
			return v, err
		})
		if err != nil || runs < 2 {
			t.Errorf("%v after %d runs", err, runs)
		}
		db.wantRows(t, 1)
	})
}

func TestErrorOfFnRollsBackAndRepeats(t *testing.T) {
	onAll(t, func(t *testing.T, db *database) {
		p := quick
		p.NonIdempotent = true
		runs := 0
		v, err := db.tx(t.Context(), p, func(ctx context.Context, t tx) (int, error) {
			v, err := insert(ctx, t)
			if runs++; runs < 3 {
				err = errors.New("unknown")
			}
			return v, err
		})
		if v != 7 || err != nil || runs != 3 {
			t.Errorf("%d, %v after %d runs, want 7 after 3", v, err, runs)
		}
		db.wantRows(t, 1)
	})
}

func TestBackendKilledInFn(t *testing.T) {
	onServers(t, func(t *testing.T, db *database) {
		p := quick
		p.NonIdempotent = true
		runs := 0
		v, err := db.tx(t.Context(), p, func(ctx context.Context, tx tx) (int, error) {
			if runs++; runs == 1 {
				db.kill(t, ctx, tx)
			}
			return insert(ctx, tx)
		})
		if v != 7 || err != nil || runs != 2 {
			t.Errorf("%d, %v after %d runs, want 7 after 2", v, err, runs)
		}
		db.wantRows(t, 1)
	})
}

// kill has the server end the session of tx.
func (db *database) kill(t *testing.T, ctx context.Context, tx tx) {
	t.Helper()
	session, kill, alive := "SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%d)", "SELECT count(*) FROM pg_stat_activity WHERE pid = %d"
	if db.name == "MariaDB" {
		session, kill, alive = "SELECT connection_id()", "KILL %d", "SELECT count(*) FROM information_schema.processlist WHERE id = %d"
	}
	id, err := tx.number(ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	db.setUp(t, fmt.Sprintf(kill, id))
	eventually(t, "the session has ended", func() bool { return db.number(t, fmt.Sprintf(alive, id)) == 0 })
}

// A constraint that is checked at COMMIT: an answer, and no value.
func TestDeferredConstraint(t *testing.T) {
	test := func(t *testing.T, db *database) {
		db.setUp(t, "DROP TABLE IF EXISTS child")
		db.setUp(t, "DROP TABLE IF EXISTS parent")
		db.setUp(t, "CREATE TABLE parent (id int PRIMARY KEY)")
		db.setUp(t, "CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
		v, err := db.tx(t.Context(), quick, func(ctx context.Context, t tx) (int, error) {
			return 7, t.exec(ctx, "INSERT INTO child VALUES (1)")
		})
		wantEnd(t, err, retry.ReasonPermanent, 1)
		if _, ok := errors.AsType[*retrysql.CommitError](err); ok || v != 0 {
			t.Errorf("%d, %v, want the zero value and no CommitError", v, err)
		}
		if n := db.number(t, "SELECT count(*) FROM child"); n != 0 {
			t.Errorf("%d rows, want 0", n)
		}
	}
	onSQLite(t, test)
	onPostgreSQL(t, test)
}

func TestFnCommitsItself(t *testing.T) {
	onAll(t, func(t *testing.T, db *database) {
		v, err := db.tx(t.Context(), quick, func(ctx context.Context, t tx) (int, error) {
			if _, err := insert(ctx, t); err != nil {
				return 0, err
			}
			return 7, t.commit(ctx)
		})
		db.wantRows(t, 1)
		wantEnd(t, err, retry.ReasonPermanent, 1)
		commit, unknown := errors.AsType[*retrysql.CommitError](err)
		switch {
		case v != 0:
			t.Errorf("value %d, want 0", v)
		case db.name == "pgxpool": // whose word for it is its own
			if !unknown || commit.Err != pgx.ErrTxClosed {
				t.Errorf("%v, want a CommitError of pgx.ErrTxClosed", err)
			}
		case unknown || !errors.Is(err, sql.ErrTxDone):
			t.Errorf("%v, want sql.ErrTxDone", err)
		}
	})
}

// pgx is not in here: what fn commits before it fails cannot be told from what it
// rolls back.
func TestFnCommitsItselfAndFails(t *testing.T) {
	test := func(t *testing.T, db *database) {
		if db.name == "pgxpool" {
			t.Skip("its Rollback does not say sql.ErrTxDone")
		}
		unavailable := errors.New("unavailable")
		_, err := db.tx(t.Context(), quick, func(ctx context.Context, t tx) (int, error) {
			if _, err := insert(ctx, t); err != nil {
				return 0, err
			}
			return 7, errors.Join(t.commit(ctx), unavailable)
		})
		db.wantRows(t, 1)
		wantEnd(t, err, retry.ReasonPermanent, 1)
		if !errors.Is(err, sql.ErrTxDone) || !errors.Is(err, unavailable) {
			t.Errorf("%v, want both errors", err)
		}
	}
	onAll(t, test)
}

// What the documentation warns of: after a timeout nobody can tell that fn has ended
// its transaction, since database/sql has done so by then as well.
func TestFnCommitsItselfAndTakesTooLong(t *testing.T) {
	onAll(t, func(t *testing.T, db *database) {
		p := quick
		p.AttemptTimeout = 2 * time.Second
		runs := 0
		_, _ = db.tx(t.Context(), p, func(ctx context.Context, t tx) (int, error) {
			if runs++; runs > 2 {
				return 7, nil
			}
			if _, err := insert(ctx, t); err != nil {
				return 0, err
			}
			if err := t.commit(ctx); err != nil {
				return 0, err
			}
			if runs == 1 {
				<-ctx.Done()
			}
			return 7, nil
		})
		db.wantRows(t, 2)
	})
}

// What the documentation warns of: a statement that defines something commits what
// came before it.
func TestDDLCommitsInMariaDB(t *testing.T) {
	onMariaDB(t, func(t *testing.T, db *database) {
		runs := 0
		_, err := db.tx(t.Context(), quick, func(ctx context.Context, t tx) (int, error) {
			runs++
			_, err := insert(ctx, t)
			if err == nil {
				err = t.exec(ctx, "CREATE TABLE IF NOT EXISTS defined (n int)")
			}
			if runs == 1 {
				return 0, errors.Join(err, errors.New("unavailable"))
			}
			return 7, err
		})
		if err != nil || runs != 2 {
			t.Errorf("%v after %d runs", err, runs)
		}
		db.wantRows(t, 2)
		db.setUp(t, "DROP TABLE defined")
	})
}

// A connection that goes back to its pool with an open transaction: the next BEGIN
// would commit what a second attempt does again.
func TestRefusedRollback(t *testing.T) {
	onMariaDB(t, func(t *testing.T, db *database) {
		p := quick
		p.NonIdempotent = true
		runs, session := 0, 0
		_, err := retrysql.Tx(t.Context(), p, db.std, nil, func(ctx context.Context, tx *sql.Tx) (v int, err error) {
			t := sqlTx{tx}
			if runs++; runs > 1 {
				return insert(ctx, t)
			}
			if session, err = t.number(ctx, "SELECT connection_id()"); err != nil {
				return 0, retry.Stop(err)
			}
			if _, err := insert(ctx, t); err != nil {
				return 0, retry.Stop(err)
			}
			db.proxy.refuseRollback()
			return 0, errors.New("unavailable")
		})
		wantEnd(t, err, retry.ReasonPermanent, 1)
		if refused, ok := errors.AsType[*mysql.MySQLError](err); !ok || refused.Number != 1317 {
			t.Errorf("%v, want the refusal in it", err)
		}
		db.wantRows(t, 0)
		db.setUp(t, fmt.Sprintf("KILL %d", session)) // which is in its transaction still
	})
}

func TestClosedPool(t *testing.T) {
	onAll(t, func(t *testing.T, db *database) {
		db.close()
		runs := 0
		_, err := db.tx(t.Context(), quick, func(context.Context, tx) (int, error) { runs++; return 7, nil })
		wantEnd(t, err, retry.ReasonPermanent, 1)
		if runs != 0 {
			t.Errorf("%d runs", runs)
		}
	})
}

// In PostgreSQL a failed statement spoils its transaction. A fn that goes on as if
// nothing had happened is told by the drivers at COMMIT, in words of their own.
func TestFnSwallowsAnError(t *testing.T) {
	onPostgreSQL(t, func(t *testing.T, db *database) {
		want := pgx.ErrTxCommitRollback
		if db.name == "pq" {
			want = pq.ErrInFailedTransaction
		}
		_, err := db.tx(t.Context(), quick, func(ctx context.Context, t tx) (int, error) {
			_ = t.exec(ctx, "SELECT 1/0")
			return 7, nil
		})
		wantEnd(t, err, retry.ReasonPermanent, 1)
		if commit, ok := errors.AsType[*retrysql.CommitError](err); !ok || commit.Err != want {
			t.Errorf("%v, want a CommitError of %v", err, want)
		}
	})
}

// What the documentation warns of: after a deadlock the transaction is no more, and
// what fn does then stays, though fn fails.
func TestFnSwallowsADeadlock(t *testing.T) {
	onMariaDB(t, func(t *testing.T, db *database) {
		locked := newBarrier(2)
		var deadlocks atomic.Int32
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				_, _ = db.tx(t.Context(), retry.Policy{MaxAttempts: 1}, func(ctx context.Context, tx tx) (int, error) {
					if err := tx.exec(ctx, fmt.Sprintf("UPDATE counter SET n = 1 WHERE id = %d", 1+i)); err != nil {
						return 0, err
					}
					locked.wait(ctx)
					if err := tx.exec(ctx, fmt.Sprintf("UPDATE counter SET n = 1 WHERE id = %d", 2-i)); err != nil {
						deadlocks.Add(1)
						_, _ = insert(ctx, tx)
						return 0, err
					}
					return 0, nil
				})
			})
		}
		all.Wait()
		db.wantRows(t, int(deadlocks.Load()))
		if deadlocks.Load() != 1 {
			t.Errorf("%d deadlocks, want 1", deadlocks.Load())
		}
	})
}

// A connection that PostgreSQL refuses at BEGIN has done nothing.
func TestTooManyConnections(t *testing.T) {
	admin := postgres.admin(t)
	for _, query := range []string{"DROP ROLE IF EXISTS lonely", "CREATE ROLE lonely LOGIN CONNECTION LIMIT 1"} {
		if _, err := admin.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	for name, driver := range map[string]string{"pgx": "pgx", "pq": "postgres"} {
		t.Run(name, func(t *testing.T) {
			source := "postgres://lonely@" + postgres.addr + "/postgres?sslmode=disable"
			holder := open(t, driver, source)
			eventually(t, "the role's only connection", func() bool { return holder.Ping() == nil }) // and keeps it
			var first retry.Attempt
			p := stubborn
			p.NonIdempotent = true
			p.Hooks.Wait = func(_ context.Context, a retry.Attempt) {
				if first.Number == 0 {
					first = a
				}
				holder.Close()
			}
			db := standard(t, name, driver, source)
			v, err := db.tx(t.Context(), p, func(context.Context, tx) (int, error) { return 7, nil })
			if v != 7 || err != nil || first.Class != retry.Throttled {
				t.Errorf("%d, %v after %v: %v, want 7 after a throttled error", v, err, first.Class, first.Err)
			}
		})
	}
}

// The inner transaction makes one attempt: it was the outer one that lost.
func TestNestedSerializationFailure(t *testing.T) {
	onPostgreSQL(t, func(t *testing.T, db *database) {
		var outer, inner int
		v, err := db.tx(t.Context(), quick, func(ctx context.Context, tx tx) (int, error) {
			outer++
			n, err := tx.number(ctx, "SELECT n FROM counter WHERE id = 1")
			if err != nil {
				return 0, err
			}
			if outer == 1 {
				db.setUp(t, "UPDATE counter SET n = n + 1 WHERE id = 1")
			}
			p := quick
			p.MaxAttempts = 5
			return retrysql.TxOf(ctx, p, savepoint(tx), func(ctx context.Context, s point) (int, error) {
				inner++
				return n, s.exec(ctx, fmt.Sprintf("UPDATE counter SET n = %d WHERE id = 1", n+1))
			})
		})
		if v != 1 || err != nil || outer != 2 || inner != 2 {
			t.Errorf("%d, %v after %d runs and %d savepoints, want 1 after 2 and 2", v, err, outer, inner)
		}
		if n := db.number(t, "SELECT n FROM counter WHERE id = 1"); n != 2 {
			t.Errorf("counted %d, want 2", n)
		}
	})
}

// point is a savepoint as a transaction.
type point struct{ tx }

func (p point) Commit(ctx context.Context) error   { return p.exec(ctx, "RELEASE SAVEPOINT s") }
func (p point) Rollback(ctx context.Context) error { return p.exec(ctx, "ROLLBACK TO SAVEPOINT s") }

func savepoint(t tx) func(context.Context) (point, error) {
	return func(ctx context.Context) (point, error) { return point{t}, t.exec(ctx, "SAVEPOINT s") }
}

// Of a RELEASE whose answer was lost nobody knows either. But the transaction around
// it is rolled back: a fn that returns what is in the CommitError has it repeated.
func TestReleaseOfASavepointIsLost(t *testing.T) {
	for _, unpack := range []bool{false, true} {
		onPostgreSQL(t, func(t *testing.T, db *database) {
			runs := 0
			_, err := db.tx(t.Context(), quick, func(ctx context.Context, tx tx) (int, error) {
				runs++
				v, err := retrysql.TxOf(ctx, quick, savepoint(tx), func(ctx context.Context, s point) (int, error) {
					v, err := insert(ctx, s)
					if runs == 1 {
						db.kill(t, ctx, s)
					}
					return v, err
				})
				if lost, ok := errors.AsType[*retrysql.CommitError](err); ok && unpack {
					err = lost.Err
				}
				return v, err
			})
			if unpack {
				db.wantRows(t, 1)
			} else {
				db.wantRows(t, 0)
				wantEnd(t, err, retry.ReasonPermanent, 1)
			}
			if want := map[bool]int{false: 1, true: 2}[unpack]; runs != want || (err == nil) != unpack {
				t.Errorf("%d runs, then %v, want %d", runs, err, want)
			}
		})
	}
}
