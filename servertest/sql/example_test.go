package sql_test

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// With pgx, at an isolation level other than the database's default. It needs a server.
func Example_pgx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/bank")
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	policy := retry.Policy{Name: "name", MaxAttempts: retry.Unlimited, MaxElapsed: 5 * time.Second}

	begin := func(ctx context.Context) (pgx.Tx, error) {
		return pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	}
	name, err := retrysql.TxOf(ctx, policy, begin, func(ctx context.Context, tx pgx.Tx) (name string, err error) {
		err = tx.QueryRow(ctx, "SELECT name FROM account WHERE id = 1").Scan(&name)
		return name, err
	})
	fmt.Println(name, err)
}
