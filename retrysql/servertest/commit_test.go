package servertest_test

import (
	"context"
	"errors"
	"fmt"
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
