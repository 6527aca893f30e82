package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// quick is a policy that waits little.
var quick = retry.Policy{Name: "test", Backoff: retry.Constant(time.Millisecond)}

// cutOnce returns a transaction of one row. The connection of its first attempt is
// lost when the server has executed COMMIT, and has answered.
func cutOnce(db *database) func(context.Context, tx) (int, error) {
	return func(ctx context.Context, t tx) (int, error) {
		v, err := insert(ctx, t)
		if retry.AttemptNumber(ctx) == 1 {
			db.proxy.cutNext()
		}
		return v, err
	}
}

func TestCutAfterCommit(t *testing.T) {
	onServers(t, func(t *testing.T, db *database) {
		v, err := db.tx(t.Context(), quick, cutOnce(db))
		db.wantRows(t, 1)
		wantEnd(t, err, retry.ReasonPermanent, 1)
		if _, ok := errors.AsType[*retrysql.CommitError](err); !ok || v != 0 {
			t.Errorf("%d, %v, want the zero value and a CommitError", v, err)
		}
		if n := db.proxy.cuts.Load(); n != 1 {
			t.Errorf("%d connections were cut, want 1", n)
		}
	})
}

func TestCutAfterCommitOfARepeatableTransaction(t *testing.T) {
	onServers(t, func(t *testing.T, db *database) {
		p := quick
		p.Classify = retrysql.Repeatable
		v, err := db.tx(t.Context(), p, cutOnce(db))
		db.wantRows(t, 2)
		if v != 7 || err != nil {
			t.Errorf("%d, %v, want 7 and no error", v, err)
		}
	})
}

// Nothing can have happened in a read-only transaction.
func TestCutInCommitOfAReadOnlyTransaction(t *testing.T) {
	onServers(t, func(t *testing.T, db *database) {
		if db.std == nil {
			t.Skip("TxOf does not know what is read-only")
		}
		p := quick
		p.NonIdempotent = true
		runs := 0
		n, err := retrysql.Tx(t.Context(), p, db.std, &sql.TxOptions{ReadOnly: true}, func(ctx context.Context, t *sql.Tx) (int, error) {
			n, err := sqlTx{t}.number(ctx, "SELECT count(*) FROM counter")
			if runs++; runs == 1 {
				db.proxy.cutNext()
			}
			return n, err
		})
		if n != 2 || err != nil || runs != 2 || db.proxy.cuts.Load() != 1 {
			t.Errorf("%d, %v after %d runs and %d cuts, want 2 after 2 and 1", n, err, runs, db.proxy.cuts.Load())
		}
		_, err = retrysql.Tx(t.Context(), p, db.std, &sql.TxOptions{ReadOnly: true}, func(ctx context.Context, t *sql.Tx) (int, error) {
			return insert(ctx, sqlTx{t})
		})
		if err == nil {
			t.Error("a read-only transaction has written")
		}
		db.wantRows(t, 0)
	})
}

// A server that has executed COMMIT or ROLLBACK and does not say so: how long it is
// waited for is up to the driver. pgx looks at the context, go-sql-driver/mysql has a
// setting, and lib/pq has none.
func TestCommitThatIsNotAnswered(t *testing.T) {
	onLimited(t, func(t *testing.T, db *database) {
		err := unanswered(t, db, nil)
		wantEnd(t, err, retry.ReasonPermanent, 1)
		if _, ok := errors.AsType[*retrysql.CommitError](err); !ok {
			t.Errorf("%v, want a CommitError", err)
		}
		db.wantRows(t, 1)
	})
}

func TestRollbackThatIsNotAnswered(t *testing.T) {
	if os.Getenv("RETRY_LONG") != "1" {
		t.Skip("waits for ten seconds: RETRY_LONG=1 runs it")
	}
	onLimited(t, func(t *testing.T, db *database) {
		fails := errors.New("no such account")
		if err := unanswered(t, db, retry.Stop(fails)); !errors.Is(err, fails) {
			t.Errorf("%v, want %v", err, fails)
		}
		db.wantRows(t, 0)
	})
}

// unanswered makes a transaction whose fn returns err, and whose end is not answered.
func unanswered(t *testing.T, db *database, fails error) error {
	p := quick
	p.AttemptTimeout = 2 * time.Second
	start := time.Now()
	_, err := db.tx(t.Context(), p, func(ctx context.Context, t tx) (int, error) {
		v, err := insert(ctx, t)
		db.proxy.silenceNext()
		return v, errors.Join(err, fails)
	})
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	return err
}

// onLimited runs test on the drivers that can limit COMMIT and ROLLBACK, with what
// docs/sql.md says for it.
func onLimited(t *testing.T, test func(*testing.T, *database)) {
	onPostgreSQL(t, func(t *testing.T, db *database) {
		if db.name == "pq" {
			t.Skip("it would wait for as long as the connection lives")
		}
		test(t, db)
	})
	t.Run("MariaDB", func(t *testing.T) {
		p := newProxy(t, mariadb.start(t))
		driver, source := mariadb.dsn(p.Addr())
		db := standard(t, "MariaDB", driver, source+"?readTimeout=2s")
		db.proxy, db.admin = p, mariadb.admin(t)
		run(t, db, test)
	})
}

// PostgreSQL remembers for some time what became of a transaction.
func TestTransactionStatusTells(t *testing.T) {
	onPostgreSQL(t, func(t *testing.T, db *database) {
		var id int
		_, err := db.tx(t.Context(), quick, func(ctx context.Context, tx tx) (v int, err error) {
			if v, err = insert(ctx, tx); err != nil {
				return 0, err
			}
			if id, err = tx.number(ctx, "SELECT pg_current_xact_id()::text::bigint"); err != nil {
				return 0, err
			}
			db.proxy.cutNext()
			return v, nil
		})
		if _, ok := errors.AsType[*retrysql.CommitError](err); !ok {
			t.Fatalf("%v, want a CommitError", err)
		}
		if n := db.number(t, fmt.Sprintf("SELECT count(*) WHERE pg_xact_status('%d') = 'committed'", id)); n != 1 {
			t.Errorf("transaction %d is not known as committed", id)
		}
		db.wantRows(t, 1)
	})
}

// With a key of its own a transaction may happen twice: the second time says that
// the first one did happen.
func TestKeyMakesATransactionRepeatable(t *testing.T) {
	onServers(t, func(t *testing.T, db *database) {
		p := quick
		p.Classify = retrysql.Repeatable
		_, err := db.tx(t.Context(), p, func(ctx context.Context, tx tx) (int, error) {
			err := tx.exec(ctx, "INSERT INTO counter VALUES (3, 1)") // id is the primary key
			if retry.AttemptNumber(ctx) == 1 {
				db.proxy.cutNext()
			}
			return 7, err
		})
		e, ok := errors.AsType[*retry.Error](err)
		if !ok || e.Reason != retry.ReasonPermanent || e.Attempts != 2 {
			t.Fatalf("%v, want a violation by the second attempt", err)
		}
		if _, first := e.Errs[0].(*retrysql.CommitError); !first {
			t.Errorf("first %v, want a CommitError", e.Errs[0])
		}
		if n := db.number(t, "SELECT count(*) FROM counter WHERE id = 3"); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
	})
}

func wantEnd(t *testing.T, err error, reason retry.Reason, attempts int) {
	t.Helper()
	e, ok := errors.AsType[*retry.Error](err)
	if !ok || e.Reason != reason || e.Attempts != attempts {
		t.Errorf("ended with %v, want %v after %d attempts", err, reason, attempts)
	}
}
