package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// transfers is for all transactions on one database, which share its budget.
var transfers = retry.Policy{
	Name:           "transfer",
	MaxAttempts:    retry.Unlimited, // each attempt may lose to another transaction
	MaxElapsed:     5 * time.Second,
	AttemptTimeout: time.Second, // longer than any transaction; for a silent server see below
	Backoff:        retry.Exponential{Base: 2 * time.Millisecond, Max: 100 * time.Millisecond},
	Budget:         &retry.EarnedBudget{}, // limits retries while the database is down; deadlocks and serialization failures cost nothing
}

// The first COMMIT meets a serialization failure, and the transaction runs again.
func ExampleTx() {
	ctx, db := context.Background(), openBank(sqlState("40001"))
	moved, err := retrysql.Tx(ctx, transfers, db, &sql.TxOptions{Isolation: sql.LevelSerializable},
		func(ctx context.Context, tx *sql.Tx) (int, error) {
			if _, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE name = 'ada'"); err != nil {
				return 0, err
			}
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + 10 WHERE name = 'grace'")
			return 10, err
		})
	fmt.Println(moved, err)
	// Output: 10 <nil>
}

// plainTx is a transaction whose methods take no context, such as *sqlx.Tx, bun.Tx
// or *ent.Tx. Here it is *sql.Tx, whose place any of them can take.
type plainTx struct{ *sql.Tx }

func (t plainTx) Commit(context.Context) error   { return t.Tx.Commit() }
func (t plainTx) Rollback(context.Context) error { return t.Tx.Rollback() }

// With pgx no such type is needed:
//
//	user, err := retrysql.TxOf(ctx, policy, pool.Begin, func(ctx context.Context, tx pgx.Tx) (User, error) { … })
func ExampleTxOf() {
	db := openBank()
	begin := func(ctx context.Context) (plainTx, error) {
		tx, err := db.BeginTx(ctx, nil) // or sqlxDB.BeginTxx, bunDB.BeginTx, entClient.BeginTx
		return plainTx{tx}, err
	}
	name, err := retrysql.TxOf(context.Background(), retry.Policy{}, begin, func(ctx context.Context, tx plainTx) (string, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO account VALUES ('ada', 0)")
		return "ada", err
	})
	fmt.Println(name, err)
	// Output: ada <nil>
}

func ExampleCommitError() {
	db := openBank(driver.ErrBadConn) // the connection was lost in COMMIT
	id := "f3b1"                      // the caller's, one for each payment
	_, err := retrysql.Tx(context.Background(), retry.Policy{}, db, nil, func(ctx context.Context, tx *sql.Tx) (int, error) {
		res, err := tx.ExecContext(ctx, "INSERT INTO payment (id, amount) VALUES ('f3b1', 10)")
		if err != nil {
			return 0, err
		}
		n, err := res.RowsAffected()
		return int(n), err
	})
	if lost, ok := errors.AsType[*retrysql.CommitError](err); ok {
		fmt.Printf("did payment %s happen? %v\n", id, lost.Err)
		// SELECT count(*) FROM payment WHERE id = 'f3b1' tells.
	}
	// Output: did payment f3b1 happen? driver: bad connection
}

// A transaction that sets a value may happen twice.
func ExampleRepeatable() {
	db := openBank(driver.ErrBadConn)
	policy := retry.Policy{Classify: retrysql.Repeatable}
	_, err := retrysql.Tx(context.Background(), policy, db, nil, func(ctx context.Context, tx *sql.Tx) (struct{}, error) {
		_, err := tx.ExecContext(ctx, "UPDATE account SET name = 'ada' WHERE id = 1")
		return struct{}{}, err
	})
	fmt.Println(err)
	// Output: <nil>
}

// In a policy of another run, Classify tells what a single statement's error means:
// here that a closed database stays closed. Of MySQL and SQLite it knows a deadlock,
// which is Transient, too many connections, Throttled, a duplicate key, Permanent, and
// more.
func ExampleClassify() {
	db := openBank()
	db.Close()
	policy := retry.Policy{Classify: retrysql.Classify}
	err := retry.Run(context.Background(), policy, db.PingContext)
	if e, ok := errors.AsType[*retry.Error](err); ok {
		fmt.Println(e.Reason, "after", e.Attempts, "attempt:", e.Last())
	}
	// Output: permanent after 1 attempt: sql: database is closed
}

// bank is a toy database, connection and transaction. It does not look at statements,
// and its COMMITs return these errors, then none.
type bank struct{ commits []error }

func openBank(commits ...error) *sql.DB { return sql.OpenDB(&bank{commits}) }

func (b *bank) Connect(context.Context) (driver.Conn, error) { return b, nil }
func (b *bank) Driver() driver.Driver                        { return nil }
func (b *bank) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (b *bank) Exec(string, []driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), nil
}
func (b *bank) Begin() (driver.Tx, error)                                    { return b, nil }
func (b *bank) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return b, nil }
func (b *bank) Rollback() error                                              { return nil }
func (b *bank) Close() error                                                 { return nil }

func (b *bank) Commit() (err error) {
	if len(b.commits) > 0 {
		err, b.commits = b.commits[0], b.commits[1:]
	}
	return err
}

// sqlState is a server's error.
type sqlState string

func (s sqlState) Error() string    { return "SQLSTATE " + string(s) }
func (s sqlState) SQLState() string { return string(s) }
