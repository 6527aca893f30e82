package sql_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/cockroach-go/v2/crdb"

	"github.com/goretry/retry"
)

// skew is what the test of cockroach-go's own retries needs: two transactions read both rows of
// counter, and each changes both.
type skew struct {
	t      *testing.T
	db     *database
	policy retry.Policy
}

func (s skew) Init(context.Context) error {
	for _, query := range []string{"DELETE FROM counter", "INSERT INTO counter VALUES (1, 100), (2, 100)"} {
		s.db.setUp(s.t, query)
	}
	return nil
}

func (s skew) ExecuteTx(ctx context.Context, fn func(tx any) error) error {
	_, err := s.db.tx(ctx, s.policy, func(_ context.Context, tx tx) (int, error) { return 0, fn(tx) })
	return err
}

func (s skew) GetBalances(ctx context.Context, t any) (one, two int, err error) {
	if one, err = t.(tx).number(ctx, "SELECT n FROM counter WHERE id = 1"); err == nil {
		two, err = t.(tx).number(ctx, "SELECT n FROM counter WHERE id = 2")
	}
	return one, two, err
}

func (s skew) UpdateBalance(ctx context.Context, t any, account, delta int) error {
	return t.(tx).exec(ctx, fmt.Sprintf("UPDATE counter SET n = n + (%d) WHERE id = %d", delta, account))
}

// The test of cockroach-go's ExecuteTx passes with Tx and TxOf: one of two transactions starts
// again, though its error is wrapped in one of another type.
func TestWriteSkewOfCockroach(t *testing.T) {
	times := 2
	if os.Getenv("RETRY_LONG") == "1" {
		times = 20
	}
	onAll(t, func(t *testing.T, db *database) {
		for name, p := range map[string]retry.Policy{
			"zero":           {},
			"not idempotent": {NonIdempotent: true},
			"with all": {AttemptTimeout: 10 * time.Second, MaxAttempts: retry.Unlimited, MaxElapsed: 20 * time.Second,
				Backoff: retry.Exponential{Base: 2 * time.Millisecond, Max: 100 * time.Millisecond}, Budget: &retry.EarnedBudget{}},
		} {
			t.Run(name, func(t *testing.T) {
				for range times {
					if err := crdb.ExecuteTxGenericTest(t.Context(), skew{t, db, p}); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	})
}
