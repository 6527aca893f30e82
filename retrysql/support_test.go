package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// state is an error with a SQLSTATE, as pgx and lib/pq have them.
type state string

func (s state) Error() string    { return "SQLSTATE " + string(s) }
func (s state) SQLState() string { return string(s) }

// unsent is an error that claims that nothing was sent, as pgx's do.
type unsent struct{}

func (unsent) Error() string     { return "unsent" }
func (unsent) SafeToRetry() bool { return true }

var errFlaky = errors.New("flaky")

// fake is a database whose transactions return these errors, and say when they end.
type fake struct {
	begin, commit, rollback error
	calls                   []string
}

func (f *fake) call(name string, err error) error {
	f.calls = append(f.calls, name)
	return err
}

func (f *fake) Begin(context.Context) (*fake, error) { return f, f.call("begin", f.begin) }
func (f *fake) Commit(context.Context) error         { return f.call("commit", f.commit) }
func (f *fake) Rollback(context.Context) error       { return f.call("rollback", f.rollback) }

// tx runs a transaction whose fn returns 7 and err.
func (f *fake) tx(ctx context.Context, p retry.Policy, err error) (int, error) {
	return retrysql.TxOf(ctx, p, f.Begin, func(context.Context, *fake) (int, error) { return 7, f.call("fn", err) })
}

// end returns the *retry.Error that every failure is.
func end(t *testing.T, err error) *retry.Error {
	t.Helper()
	e, ok := err.(*retry.Error)
	if !ok {
		t.Fatalf("%v (%T), want a *retry.Error", err, err)
	}
	return e
}

// idle is a driver whose transactions do nothing.
type idle struct {
	commit func() error           // nil: no error
	begun  func(driver.TxOptions) // nil: nobody wants to know
}

func (d idle) Connect(context.Context) (driver.Conn, error)       { return d, nil }
func (d idle) Driver() driver.Driver                              { return nil }
func (d idle) Prepare(string) (driver.Stmt, error)                { return nil, errors.ErrUnsupported }
func (d idle) Exec(string, []driver.Value) (driver.Result, error) { return driver.RowsAffected(1), nil }
func (d idle) Close() error                                       { return nil }
func (d idle) Begin() (driver.Tx, error)                          { return d, nil }
func (d idle) Rollback() error                                    { return nil }

func (d idle) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if d.begun != nil {
		d.begun(opts)
	}
	return d, nil
}

func (d idle) Commit() error {
	if d.commit != nil {
		return d.commit()
	}
	return nil
}

// openIdle returns a database of that driver.
func openIdle(t testing.TB, d idle) *sql.DB {
	db := sql.OpenDB(d)
	t.Cleanup(func() { db.Close() })
	return db
}
