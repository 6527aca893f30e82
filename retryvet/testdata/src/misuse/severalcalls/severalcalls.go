package severalcalls

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
)

type bank struct{}

func (bank) Charge(context.Context, int) error            { return nil }
func (bank) Refund(context.Context, int) error            { return nil }
func (bank) GetToken(context.Context) (string, error)     { return "", nil }
func (bank) Checkout(context.Context) (string, error)     { return "", nil }
func (bank) Log(context.Context, string)                  {}
func (bank) Transfer(ctx context.Context, a, b int) error { return nil }

type step func(context.Context) error

var once = retry.Policy{NonIdempotent: true, Classify: retry.DefaultClassifier}

func inTurn(ctx context.Context, b bank) error {
	return retry.Run(ctx, once, func(ctx context.Context) error {
		if err := b.Charge(ctx, 1); err != nil {
			return err
		}
		return b.Transfer(ctx, 1, 2) // want `this operation has called b.Charge before, and its policy is NonIdempotent: Classify takes an error of this call as proof that both did nothing`
	})
}

func secondChoice(ctx context.Context, b bank) (string, error) {
	return retry.Do(ctx, once.Named("checkout"), func(ctx context.Context) (string, error) {
		id, err := b.Checkout(ctx)
		if err != nil {
			b.Log(ctx, "the first one failed")
			id, err = b.Checkout(ctx) // want `has called b.Checkout before`
		}
		return id, err
	})
}

func inALoop(ctx context.Context, b bank, accounts []int) error {
	return retry.Run(ctx, once, func(ctx context.Context) error {
		for _, account := range accounts {
			if err := b.Charge(ctx, account); err != nil { // want `has called b.Charge before`
				return err
			}
		}
		return nil
	})
}

func withAFunction(ctx context.Context, b bank, pay func(context.Context) error) error {
	return retry.Run(ctx, once, func(ctx context.Context) error {
		if err := pay(ctx); err != nil {
			return err
		}
		return b.Refund(ctx, 1) // want `has called pay before`
	})
}

// pgTx is a transaction whose Commit takes a context.
type pgTx struct{}

func (*pgTx) Exec(context.Context, string) error { return nil }
func (*pgTx) Commit(context.Context) error       { return nil }

func commitAndMore(ctx context.Context, b bank, tx *pgTx) error {
	return retry.Run(ctx, once, func(ctx context.Context) error {
		if err := tx.Exec(ctx, "insert"); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		go b.Charge(ctx, 1) // want `has called tx.Commit before`
		return nil
	})
}

func twice(ctx context.Context) error {
	return errors.Join(bank{}.Charge(ctx, 1), bank{}.Refund(ctx, 1))
}

func fine(ctx context.Context, b bank, db *sql.DB, client *http.Client) {
	// One call on each way.
	_ = retry.Run(ctx, once, func(ctx context.Context) error {
		if client != nil {
			return b.Charge(ctx, 1)
		}
		return b.Refund(ctx, 1)
	})
	_ = retry.Run(ctx, once, func(ctx context.Context) error {
		if client == nil {
			panic(b.Charge(ctx, 1))
		}
		return b.Refund(ctx, 1)
	})
	// A conversion, and a call that is made later, are none.
	_ = retry.Run(ctx, once, func(ctx context.Context) error {
		later := step(func(ctx context.Context) error { return b.Refund(ctx, 1) })
		_ = later
		return b.Charge(ctx, 1)
	})
	// Calls that only read, prepare or tell.
	_ = retry.Run(ctx, once, func(ctx context.Context) error {
		token, err := b.GetToken(ctx)
		if err != nil {
			return err
		}
		b.Log(ctx, token)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, token, nil)
		if err != nil {
			return err
		}
		_ = req
		return b.Charge(ctx, 1)
	})
	// A transaction does all or nothing.
	_ = retry.Run(ctx, once, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "insert"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "insert"); err != nil {
			return err
		}
		return tx.Commit()
	})
	// Without a Classify only a mark is proof, and the operation makes it.
	_ = retry.Run(ctx, retry.Policy{NonIdempotent: true}, func(ctx context.Context) error {
		if err := b.Charge(ctx, 1); err != nil {
			return retry.Undone(err)
		}
		return b.Refund(ctx, 1)
	})
	_ = retry.Run(ctx, retry.Policy{NonIdempotent: true, Classify: nil}, func(ctx context.Context) error {
		return errors.Join(b.Charge(ctx, 1), b.Refund(ctx, 1))
	})
	// A service makes many calls, and a batch one for all items.
	_ = retry.Supervise(ctx, once, time.Minute, func(ctx context.Context) error {
		return errors.Join(b.Charge(ctx, 1), b.Refund(ctx, 1))
	})
	_ = retrybatch.Run(ctx, once, []int{1, 2}, func(ctx context.Context, open []int) error {
		return errors.Join(b.Charge(ctx, 1), b.Refund(ctx, 1))
	})
	// What a function of the package does is not looked at.
	_ = retry.Run(ctx, once, twice)
	// It may run twice.
	_ = retry.Run(ctx, retry.Policy{Classify: retry.DefaultClassifier}, func(ctx context.Context) error {
		if err := b.Charge(ctx, 1); err != nil {
			return err
		}
		return b.Refund(ctx, 1)
	})
}
