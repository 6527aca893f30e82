package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrysql"
	"github.com/goretry/retry/retrysql/internal/mysql"
)

// demotion is a driver whose first connections lead to a server that was the primary.
type demotion struct {
	first int32 // how many

	begin, statement, commit error // what that server says; nil: nothing
	rollback                 func()
	dials, closes            atomic.Int32
	closedFirst              atomic.Int32
}

type demotedConn struct {
	idle
	d     *demotion
	first bool
}

func (d *demotion) Connect(context.Context) (driver.Conn, error) {
	return &demotedConn{d: d, first: d.dials.Add(1) <= d.first}, nil
}

func (d *demotion) Driver() driver.Driver { return nil }

func (c *demotedConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	if c.first && c.d.begin != nil {
		return nil, c.d.begin
	}
	return c, nil
}

func (c *demotedConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	if c.first && c.d.statement != nil {
		return nil, c.d.statement
	}
	return driver.RowsAffected(1), nil
}

func (c *demotedConn) Commit() error {
	if c.first {
		return c.d.commit
	}
	return nil
}

func (c *demotedConn) Rollback() error {
	if c.d.rollback != nil {
		c.d.rollback()
	}
	return nil
}

// With these two a connection outlives the context of its transaction.
func (c *demotedConn) IsValid() bool                      { return true }
func (c *demotedConn) ResetSession(context.Context) error { return nil }

func (c *demotedConn) Close() error {
	c.d.closes.Add(1)
	if c.first {
		c.d.closedFirst.Add(1)
	}
	return nil
}

// open returns a pool in which all those connections are idle.
func (d *demotion) open(t *testing.T) *sql.DB {
	db := sql.OpenDB(d)
	t.Cleanup(func() { db.Close() })
	db.SetMaxIdleConns(int(d.first))
	var conns []*sql.Conn
	for range d.first {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Close()
	}
	return db
}

func write(ctx context.Context, tx *sql.Tx) (int, error) {
	_, err := tx.ExecContext(ctx, "INSERT")
	return 7, err
}

var thrice = retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)}

// withText is an error of MySQL with its text.
func withText(number uint16, text string) error {
	return &mysql.MySQLError{Number: number, Message: text}
}

var byOption = withText(1290, "The MySQL server is running with the --read-only option so it cannot execute this statement")

// After a failover all connections of a pool lead to a server that takes no writes. No call is
// lost: an attempt closes its connection, and the second one the other idle ones.
func TestPoolOfADemotedServer(t *testing.T) {
	for name, fault := range map[string]struct{ begin, statement, commit error }{
		"PostgreSQL, at a statement":     {statement: state("25006")},
		"MySQL, at a statement":          {statement: byOption},
		"MySQL, at COMMIT":               {commit: byOption},
		"MySQL, in read-only mode":       {statement: withText(1836, "Running in read-only mode")},
		"MySQL, a read-only transaction": {statement: withText(1792, "Cannot execute statement in a READ ONLY transaction.")},
		"at BEGIN":                       {begin: state("25006")},
		"a dead connection at BEGIN":     {begin: driver.ErrBadConn},
	} {
		for _, calls := range []int{1, 2, 20, 50} {
			t.Run(name, func(t *testing.T) {
				p := thrice
				p.NonIdempotent = true
				d := &demotion{first: 20, begin: fault.begin, statement: fault.statement, commit: fault.commit}
				db := d.open(t)
				var wg sync.WaitGroup
				for range calls {
					wg.Go(func() {
						if v, err := retrysql.Tx(t.Context(), p, db, nil, write); v != 7 || err != nil {
							t.Errorf("one of %d calls: %d, %v", calls, v, err)
						}
					})
				}
				wg.Wait()
				if n := db.Stats().InUse; n != 0 {
					t.Errorf("%d connections in use", n)
				}
				if dead := fault.begin == driver.ErrBadConn; !dead && d.closedFirst.Load() != 20 {
					t.Errorf("%d connections to that server closed, want 20", d.closedFirst.Load())
				}
			})
		}
	}
}

// What has only the method BeginTx keeps its connections, and its attempts fail.
func TestPoolOfADemotedServerBehindAnotherType(t *testing.T) {
	d := &demotion{first: 20, statement: state("25006")}
	_, err := retrysql.Tx(t.Context(), thrice, struct{ beginner }{d.open(t)}, nil, write)
	if end(t, err).Attempts != 3 || d.closes.Load() != 0 {
		t.Errorf("%v, and %d connections closed", err, d.closes.Load())
	}
}

// Connections are closed for no other reason.
func TestConnectionsThatStay(t *testing.T) {
	for name, tt := range map[string]struct {
		err      error
		opts     *sql.TxOptions
		attempts int
	}{
		"a transaction that is to be read-only": {state("25006"), &sql.TxOptions{ReadOnly: true}, 3},
		"another option of the server":          {withText(1290, "The MySQL server is running with the --secure-file-priv option so it cannot execute this statement"), nil, 1},
		"a deadlock":                            {state("40P01"), nil, 3},
		"another database's run":                {&retry.Error{Reason: retry.ReasonMaxAttempts, Errs: []error{state("25006")}}, nil, 3},
		"a plain error":                         {errFlaky, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			d := &demotion{first: 20, statement: tt.err}
			db := d.open(t)
			_, err := retrysql.Tx(t.Context(), thrice, db, tt.opts, write)
			if end(t, err).Attempts != tt.attempts || d.closes.Load() != 0 || db.Stats().InUse != 0 {
				t.Errorf("%v, want %d attempts; %d connections closed, %d in use", err, tt.attempts, d.closes.Load(), db.Stats().InUse)
			}
		})
	}
	d := &demotion{first: 1, statement: state("25006")}
	conn, err := d.open(t).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := retrysql.Tx(t.Context(), thrice, conn, nil, write); end(t, err).Attempts != 3 || d.closes.Load() != 0 {
		t.Errorf("%v on a connection of the caller's, which was closed %d times", err, d.closes.Load())
	}
}

// A retry at another server is load there, and the budget pays.
func TestBudgetPaysForADemotedServer(t *testing.T) {
	for _, d := range []*demotion{{first: 20, statement: state("25006")}, {first: 20, statement: byOption}, {first: 20, commit: byOption}} {
		p := thrice
		p.Budget = &budget.Token{Capacity: 1}
		_, err := retrysql.Tx(t.Context(), p, d.open(t), nil, write)
		if e := end(t, err); e.Reason != retry.ReasonBudget || e.Attempts != 2 {
			t.Errorf("%v, want an end by the budget, which has one token, after two attempts", err)
		}
	}
}

// If the attempt's context has ended, the connection goes back without the caller's waiting for
// a ROLLBACK that database/sql has begun.
func TestConnectionOfAnAttemptThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		d := &demotion{rollback: func() { <-answered }}
		db := sql.OpenDB(d)
		defer db.Close()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := retrysql.Tx(ctx, thrice, db, nil, func(ctx context.Context, tx *sql.Tx) (int, error) {
			cancel()
			synctest.Wait() // database/sql rolls back
			return 0, ctx.Err()
		})
		close(answered)
		synctest.Wait()
		if !errors.Is(err, context.Canceled) || db.Stats().InUse != 0 {
			t.Errorf("%v, and %d connections in use", err, db.Stats().InUse)
		}
	})
}
