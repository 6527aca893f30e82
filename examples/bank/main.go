// Bank moves money between accounts in concurrent transactions, first without retries
// and then with them:
//
//	go run ./examples/bank
//
// It needs nothing else: the database is SQLite in a temporary folder. On another
// database it creates a table retry_bank and drops it in the end:
//
//	go run ./examples/bank -db postgres://user@localhost/database
//
// A transfer reads two balances, then writes both, in one serializable transaction.
// The database refuses transactions that conflict. The example shows which ones it
// refuses and why, that no money is lost, and that with retries every transfer
// succeeds.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrysql"
)

const (
	accounts  = 4
	opening   = 1000
	workers   = 8
	transfers = 25 // of each worker
)

func main() {
	source := flag.String("db", "", "a PostgreSQL to use in place of SQLite: postgres://user@host/database")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *source); err != nil {
		fmt.Fprintln(os.Stderr, "bank:", err)
		os.Exit(1)
	}
}

// run prints the results, and returns an error if they are not as expected.
func run(ctx context.Context, w io.Writer, source string) error {
	name, driver := "PostgreSQL", "pgx"
	if source == "" {
		dir, err := os.MkdirTemp("", "bank-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		name, driver = "SQLite", "sqlite"
		source = "file:" + filepath.Join(dir, "bank.db") + "?_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close()
	b := bank{db}
	if err := b.found(ctx); err != nil {
		return err
	}
	defer b.dissolve()
	before, err := b.sum(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %d accounts, %d in all. %d workers make %d transfers each.\n\n", name, accounts, before, workers, transfers)

	once, err := b.work(ctx, retry.Policy{Name: "transfer", MaxAttempts: 1})
	if err != nil {
		return err
	}
	again, err := b.work(ctx, retry.Policy{
		Name:        "transfer",
		MaxAttempts: retry.Unlimited,
		MaxElapsed:  time.Minute,
		Backoff:     retry.Exponential{Base: 2 * time.Millisecond, Max: 100 * time.Millisecond},
	})
	if err != nil {
		return err
	}

	row := func(what string, without, with any) { fmt.Fprintf(w, "%-20s %16v %14v\n", what, without, with) }
	row("", "without retries", "with retries")
	row("transfers done", once.done, again.done)
	row("transfers lost", once.lost, again.lost)
	row("transactions", once.transactions, again.transactions)
	row("of them repeated", once.repeated(), again.repeated())
	row("most for a transfer", once.most, again.most)
	row("sum before", before, once.sum)
	row("sum after", once.sum, again.sum)
	fmt.Fprint(w, "\nwhy they were repeated\n")
	for _, why := range slices.SortedFunc(maps.Keys(again.why), func(a, b string) int {
		return cmp.Or(again.why[b]-again.why[a], strings.Compare(a, b))
	}) {
		fmt.Fprintf(w, "%6d  %s\n", again.why[why], why)
	}

	switch {
	case once.sum != before || again.sum != before:
		return errors.New("the sum has changed")
	case again.lost > 0 || again.done != workers*transfers:
		return fmt.Errorf("%d transfers were lost though they were repeated: %w", again.lost, again.err)
	case once.lost == 0:
		return errors.New("nothing was lost without retries: the transfers were not in each other's way")
	}
	return nil
}

// bank has its accounts in the table retry_bank.
type bank struct{ db *sql.DB }

func (b bank) found(ctx context.Context) error {
	if _, err := b.db.ExecContext(ctx, "CREATE TABLE retry_bank (id int PRIMARY KEY, balance int NOT NULL)"); err != nil {
		return err
	}
	for id := range accounts {
		if _, err := b.db.ExecContext(ctx, "INSERT INTO retry_bank VALUES ($1, $2)", id, opening); err != nil {
			return err
		}
	}
	return nil
}

func (b bank) dissolve() { _, _ = b.db.Exec("DROP TABLE retry_bank") }

func (b bank) sum(ctx context.Context) (sum int, err error) {
	return sum, b.db.QueryRowContext(ctx, "SELECT sum(balance) FROM retry_bank").Scan(&sum)
}

// transfer moves amount between two accounts. It is the whole of what a service
// would write.
func (b bank) transfer(ctx context.Context, p retry.Policy, from, to, amount int) (balance int, err error) {
	return retrysql.Tx(ctx, p, b.db, &sql.TxOptions{Isolation: sql.LevelSerializable}, func(ctx context.Context, tx *sql.Tx) (int, error) {
		balance, err := change(ctx, tx, from, -amount)
		if err != nil {
			return 0, err
		}
		if err := clockx.System().Sleep(ctx, time.Millisecond); err != nil { // as if there were more to do
			return 0, err
		}
		_, err = change(ctx, tx, to, amount)
		return balance, err
	})
}

func change(ctx context.Context, tx *sql.Tx, account, by int) (balance int, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT balance FROM retry_bank WHERE id = $1", account).Scan(&balance); err != nil {
		return 0, err
	}
	balance += by
	_, err = tx.ExecContext(ctx, "UPDATE retry_bank SET balance = $1 WHERE id = $2", balance, account)
	return balance, err
}

// outcome is the outcome of all transfers.
type outcome struct {
	done, lost   int
	transactions int
	most         int            // transactions for a transfer
	why          map[string]int // for which error how many transactions were repeated
	err          error          // of a transfer that was lost
	sum          int            // of all balances in the end
}

func (o *outcome) repeated() (n int) {
	for _, count := range o.why {
		n += count
	}
	return n
}

// work has all workers make their transfers.
func (b bank) work(ctx context.Context, p retry.Policy) (outcome, error) {
	var mu sync.Mutex
	o := outcome{why: make(map[string]int)}
	p.Hooks = retry.Hooks{
		Wait: func(_ context.Context, a retry.Attempt) {
			mu.Lock()
			defer mu.Unlock()
			o.why[a.Err.Error()]++
		},
		Done: func(_ context.Context, s retry.Summary) {
			mu.Lock()
			defer mu.Unlock()
			o.transactions += s.Attempts
			o.most = max(o.most, s.Attempts)
			if s.Err == nil {
				o.done++
				return
			}
			o.lost++
			o.err = s.Err
		},
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range transfers {
				from := rand.N(accounts)
				to := (from + 1 + rand.N(accounts-1)) % accounts
				_, _ = b.transfer(ctx, p, from, to, 1+rand.N(10)) // Hooks.Done counts
			}
		})
	}
	all.Wait()
	var err error
	o.sum, err = b.sum(ctx)
	return o, err
}
