package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"modernc.org/sqlite"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// A conflict that rolls the transaction back cuts a statement that is still being read, with
// ABORT_ROLLBACK: that transaction is over, and the next attempt is another one.
func TestTransactionThatIsOverIsRepeated(t *testing.T) {
	onSQLite(t, func(t *testing.T, db *database) {
		const abortRollback = 516
		transactions := 0
		n, err := retrysql.Tx(t.Context(), retry.Policy{NonIdempotent: true, Backoff: retry.Constant(0)}, db.std, nil, func(ctx context.Context, tx *sql.Tx) (n int, err error) {
			transactions++
			rows, err := tx.QueryContext(ctx, "SELECT id FROM counter")
			if err != nil {
				return 0, err
			}
			defer rows.Close()
			for rows.Next() {
				n++
				if transactions > 1 {
					continue
				}
				for _, query := range []string{"CREATE TABLE another (id)", "INSERT OR ROLLBACK INTO counter (id, n) VALUES (1, 0)"} {
					_, err = tx.ExecContext(ctx, query)
				}
				if err == nil {
					t.Error("no conflict")
				}
			}
			if e, ok := errors.AsType[*sqlite.Error](rows.Err()); transactions == 1 && (!ok || e.Code() != abortRollback) {
				t.Fatalf("%v, want ABORT_ROLLBACK: this test shows nothing", rows.Err())
			}
			return n, rows.Err()
		})
		if n != 2 || err != nil || transactions != 2 {
			t.Errorf("%d rows, %v, %d transactions, want 2, nil, 2", n, err, transactions)
		}
	})
}
