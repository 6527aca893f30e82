package servertest_test

import (
	"context"
	"errors"
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

func wantEnd(t *testing.T, err error, reason retry.Reason, attempts int) {
	t.Helper()
	e, ok := errors.AsType[*retry.Error](err)
	if !ok || e.Reason != reason || e.Attempts != attempts {
		t.Errorf("ended with %v, want %v after %d attempts", err, reason, attempts)
	}
}
