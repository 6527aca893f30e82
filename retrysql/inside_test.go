package retrysql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrysql"
)

// connected is a transaction that tells its connection, as pgx.Tx does.
type connected struct {
	noTx
	conn *int
}

func (c connected) Conn() *int { return c.conn }

// point is a savepoint that somebody has written himself.
type point struct{ noTx }

// dialing and talking have methods Conn that are about something else.
type (
	dialing struct{ noTx }
	talking struct{ noTx }
)

func (dialing) Conn(string) *int     { return nil }
func (talking) Conn() (*int, string) { return nil, "" }

// byValue is a database that is no pointer, and cannot be compared.
type byValue struct {
	*sql.DB
	_ []int
}

const many = 5

// conflicting makes a transaction that loses each time, and returns its attempts.
func conflicting[X interface {
	Commit(context.Context) error
	Rollback(context.Context) error
}](begin func(context.Context) (X, error)) func(context.Context) int {
	return func(ctx context.Context) (attempts int) {
		p := retry.Policy{MaxAttempts: many, AttemptTimeout: time.Hour, Backoff: retry.Constant(0)}
		_, _ = retrysql.TxOf(ctx, p, begin, func(context.Context, X) (int, error) {
			attempts++
			return 0, state("40001")
		})
		return attempts
	}
}

func conflictingOn(db beginner) func(context.Context) int {
	return func(ctx context.Context) (attempts int) {
		p := retry.Policy{MaxAttempts: many, Backoff: retry.Constant(0)}
		_, _ = retrysql.Tx(ctx, p, db, nil, func(context.Context, *sql.Tx) (int, error) {
			attempts++
			return 0, state("40001")
		})
		return attempts
	}
}

type beginner interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}

// pool begins transactions, each on a connection of its own.
func pool(context.Context) (connected, error) { return connected{conn: new(int)}, nil }

// Which transactions are a part of the one around them, and are repeated with it.
func TestInside(t *testing.T) {
	accounts, orders := openIdle(t, idle{}), openIdle(t, idle{})
	conn, err := orders.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	onAccounts := func(ctx context.Context, inner func(context.Context) int) (attempts int) {
		_, _ = retrysql.Tx(ctx, retry.Policy{}, accounts, nil, func(ctx context.Context, _ *sql.Tx) (int, error) {
			attempts = inner(ctx)
			return 0, nil
		})
		return attempts
	}
	anyOuter := func(ctx context.Context, inner func(context.Context) int) (attempts int) {
		_, _ = retrysql.TxOf(ctx, retry.Policy{}, begun, func(ctx context.Context, _ noTx) (int, error) {
			attempts = inner(ctx)
			return 0, nil
		})
		return attempts
	}
	onPool := func(ctx context.Context, inner func(context.Context) int) (attempts int) {
		_, _ = retrysql.TxOf(ctx, retry.Policy{}, pool, func(ctx context.Context, _ connected) (int, error) {
			attempts = inner(ctx)
			return 0, nil
		})
		return attempts
	}
	savepoint := conflicting(func(context.Context) (point, error) { return point{}, nil })

	for name, tt := range map[string]struct {
		outer func(context.Context, func(context.Context) int) int
		inner func(context.Context) int
		want  int
	}{
		"the same *sql.DB":              {onAccounts, conflictingOn(accounts), 1},
		"another *sql.DB":               {onAccounts, conflictingOn(orders), many},
		"a *sql.Conn":                   {onAccounts, conflictingOn(conn), many},
		"a type that cannot compare":    {onAccounts, conflictingOn(byValue{DB: orders}), many},
		"a savepoint in *sql.Tx":        {onAccounts, savepoint, 1},
		"a savepoint in any other type": {anyOuter, savepoint, 1},
		"a Conn with an argument":       {anyOuter, conflicting(func(context.Context) (dialing, error) { return dialing{}, nil }), 1},
		"a Conn with two results":       {anyOuter, conflicting(func(context.Context) (talking, error) { return talking{}, nil }), 1},
		"pgx in *sql.Tx":                {onAccounts, conflicting(pool), 1},
		"pgx in any other type":         {anyOuter, conflicting(pool), 1},
		"a *sql.DB in any other type":   {anyOuter, conflictingOn(orders), 1},
		"a *sql.DB in pgx":              {onPool, conflictingOn(orders), 1},
		"a *sql.DB in pgx, outside":     {onPool, func(ctx context.Context) int { return conflictingOn(orders)(retrysql.Outside(ctx)) }, many},
		"any other type in pgx":         {onPool, savepoint, 1},
		"a *sql.DB around another": {onAccounts, func(ctx context.Context) (attempts int) {
			_, _ = retrysql.Tx(ctx, retry.Policy{}, orders, nil, func(ctx context.Context, _ *sql.Tx) (int, error) {
				attempts = conflictingOn(accounts)(ctx)
				return 0, nil
			})
			return attempts
		}, 1},
		"BEGIN of a savepoint fails": {anyOuter, func(ctx context.Context) int {
			p := retry.Policy{MaxAttempts: many, Backoff: retry.Constant(0)}
			_, err := (&fake{begin: state("25P02")}).tx(ctx, p, nil)
			return end(t, err).Attempts
		}, 1},
		"detached": {onAccounts, func(ctx context.Context) int { return conflictingOn(accounts)(context.WithoutCancel(ctx)) }, many},
		"detached, with timeouts of its attempts": {anyOuter, func(ctx context.Context) int { return savepoint(context.WithoutCancel(ctx)) }, many},
		"outside":      {anyOuter, func(ctx context.Context) int { return savepoint(retrysql.Outside(ctx)) }, many},
		"outside, far": {onAccounts, func(ctx context.Context) int { return anyOuter(retrysql.Outside(ctx), savepoint) }, 1},
	} {
		if got := tt.outer(t.Context(), tt.inner); got != tt.want {
			t.Errorf("%s: %d attempts, want %d", name, got, tt.want)
		}
	}
	if got := onAccounts(context.Background(), func(ctx context.Context) int { return conflictingOn(accounts)(context.WithoutCancel(ctx)) }); got != 1 {
		t.Errorf("in a transaction that nothing ends: %d attempts, want 1", got)
	}
}

// Transactions of one type are on several databases, and savepoints are in them.
func TestInsideOfAConnection(t *testing.T) {
	var got []int
	_, err := retrysql.TxOf(t.Context(), retry.Policy{}, pool, func(ctx context.Context, outer connected) (int, error) {
		got = append(got, conflicting(pool)(ctx), conflicting(func(context.Context) (connected, error) { return outer, nil })(ctx))
		return 7, nil
	})
	if err != nil || got[0] != many || got[1] != 1 {
		t.Errorf("%v, %d attempts on another connection and of a savepoint, want %d and 1", err, got, many)
	}
}

// A transaction that goes on after the one around it is its own.
func TestAfterTheTransactionAround(t *testing.T) {
	for _, outcome := range []error{nil, retry.Stop(errFlaky)} {
		var after context.Context
		_, _ = retrysql.TxOf(t.Context(), retry.Policy{}, begun, func(ctx context.Context, _ noTx) (int, error) {
			var cancel context.CancelFunc
			after, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
			t.Cleanup(cancel)
			return 7, outcome
		})
		if got := conflicting(begun)(after); got != many {
			t.Errorf("%d attempts after a transaction that returned %v, want %d", got, outcome, many)
		}
	}
}

// Whether there is a transaction around that would be repeated is asked after each
// attempt.
func TestTheTransactionAroundEndsMeanwhile(t *testing.T) {
	for over, want := range map[bool]int{false: 1, true: many} {
		attempts := 0
		first, resume, ended := make(chan bool), make(chan bool), make(chan bool)
		_, _ = retrysql.TxOf(t.Context(), retry.Policy{}, begun, func(ctx context.Context, _ noTx) (int, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
			go func() {
				defer close(ended)
				defer cancel()
				p := retry.Policy{MaxAttempts: many, Backoff: retry.Constant(0)}
				_, _ = retrysql.TxOf(ctx, p, begun, func(context.Context, noTx) (int, error) {
					if attempts++; attempts == 1 {
						close(first)
						<-resume
					}
					return 0, state("40001")
				})
			}()
			<-first
			if !over {
				close(resume)
				<-ended
			}
			return 7, nil
		})
		if over {
			close(resume)
		}
		<-ended
		if attempts != want {
			t.Errorf("%d attempts, want %d if the transaction around is over: %v", attempts, want, over)
		}
	}
}

// The caller's end does not cut a COMMIT, but it must not hang for ever either.
func TestCommitOutlivesTheCaller(t *testing.T) {
	for name, tt := range map[string]struct {
		policy retry.Policy
		takes  time.Duration // from when on the COMMIT hangs, until it looks at its context
		ends   time.Duration // from the COMMIT's start on
	}{
		"canceled":            {retry.Policy{}, 0, 5 * time.Second},
		"canceled before":     {retry.Policy{}, 2 * time.Second, 7 * time.Second},
		"attempt's timeout":   {retry.Policy{AttemptTimeout: time.Second}, 0, 6 * time.Second},
		"both, the first one": {retry.Policy{AttemptTimeout: time.Minute}, 0, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
			defer cancel()
			tx := hooked{
				commit: func(ctx context.Context) error {
					start := time.Now()
					time.Sleep(tt.takes)
					if _, ok := ctx.Deadline(); ok || ctx.Err() != nil || context.Cause(ctx) != nil || ctx.Value(key{}) != "value" {
						t.Errorf("%s: COMMIT in a context with %v, %v", name, ctx.Value(key{}), ctx.Err())
					}
					if tt.policy.AttemptTimeout != time.Second {
						cancel()
					}
					<-ctx.Done()
					if took := time.Since(start); took != tt.ends {
						t.Errorf("%s: COMMIT ended after %v, want %v", name, took, tt.ends)
					}
					return ctx.Err()
				},
				rollback: func(context.Context) error { return nil },
			}
			tt.policy.MaxAttempts = 1
			_, err := retrysql.TxOf(ctx, tt.policy, func(context.Context) (hooked, error) { return tx, nil },
				func(context.Context, hooked) (int, error) { return 7, nil })
			if _, ok := errors.AsType[*retrysql.CommitError](err); !ok {
				t.Errorf("%s: %v, want a CommitError", name, err)
			}
		})
	}
}

// A COMMIT that has gone through counts, though nobody waits for it any more.
func TestCommitAfterTheCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var last context.Context
		tx := hooked{commit: func(ctx context.Context) error {
			last = ctx
			cancel()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(4 * time.Second):
				return nil
			}
		}}
		v, err := retrysql.TxOf(ctx, retry.Policy{}, func(context.Context) (hooked, error) { return tx, nil },
			func(context.Context, hooked) (int, error) { return 7, nil })
		if v != 7 || err != nil {
			t.Errorf("%d, %v, want 7", v, err)
		}
		if last.Err() != context.Canceled {
			t.Errorf("after COMMIT its context has the error %v, want context.Canceled", last.Err())
		}
	})
}

// A driver that looks at the context when the COMMIT is over finds it ended. A context
// that never ends is handed on as it is.
func TestContextOfCommitEndsWithIt(t *testing.T) {
	var last context.Context
	tx := hooked{commit: func(ctx context.Context) error { last = ctx; return nil }}
	commit := func(ctx context.Context) {
		_, _ = retrysql.TxOf(ctx, retry.Policy{}, func(context.Context) (hooked, error) { return tx, nil },
			func(context.Context, hooked) (int, error) { return 7, nil })
	}
	commit(t.Context())
	if <-last.Done(); last.Err() != context.Canceled {
		t.Errorf("after COMMIT its context has the error %v, want context.Canceled", last.Err())
	}
	commit(context.Background())
	if last.Done() != nil || last.Err() != nil {
		t.Errorf("COMMIT got %v, want a context that never ends", last)
	}
}

// A savepoint was admitted with the transaction around it: as many clients as there are places
// all commit, and none waits.
func TestSavepointsEnterNoGuards(t *testing.T) {
	db := openIdle(t, idle{})
	tx := func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
		_, err := retrysql.Tx(ctx, p, db, nil, func(ctx context.Context, _ *sql.Tx) (int, error) { return 0, fn(ctx) })
		return err
	}
	txOf := func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
		_, err := retrysql.TxOf(ctx, p, begun, func(ctx context.Context, _ noTx) (int, error) { return 0, fn(ctx) })
		return err
	}
	onPool := func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
		_, err := retrysql.TxOf(ctx, p, pool, func(ctx context.Context, _ connected) (int, error) { return 0, fn(ctx) })
		return err
	}
	type run = func(context.Context, retry.Policy, func(context.Context) error) error
	for name, tt := range map[string]struct{ outer, inner run }{
		"Tx in Tx":     {tx, tx},
		"TxOf in TxOf": {txOf, txOf},
		"TxOf in Tx":   {tx, txOf},
		"Tx in TxOf":   {txOf, tx},
		"pgx in pgx":   {onPool, onPool},
		"three deep": {tx, func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
			return txOf(ctx, p, func(ctx context.Context) error { return onPool(ctx, p, fn) })
		}},
		"three of pools": {onPool, func(ctx context.Context, p retry.Policy, fn func(context.Context) error) error {
			return onPool(ctx, p, func(ctx context.Context) error { return onPool(ctx, p, fn) })
		}},
	} {
		for _, clients := range []int{1, 20} {
			synctest.Test(t, func(t *testing.T) {
				begin, done := time.Now(), make(chan error)
				p := retry.Policy{Guards: []retry.Guard{&limit.Limit{Max: clients}}, Backoff: retry.Constant(time.Second)}
				for range clients {
					go func() {
						done <- tt.outer(t.Context(), p, func(ctx context.Context) error {
							time.Sleep(time.Millisecond)
							return tt.inner(ctx, p, func(context.Context) error { return nil })
						})
					}()
				}
				for range clients {
					if err := <-done; err != nil {
						t.Errorf("%s, %d clients: %v", name, clients, err)
					}
				}
				if took := time.Since(begin); took != time.Millisecond {
					t.Errorf("%s, %d clients: it took %v, want 1ms", name, clients, took)
				}
			})
		}
	}
}

// seen counts the attempts that it admits.
type seen struct{ entered, left int }

func (s *seen) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	s.entered++
	return retry.Pass{}, nil
}
func (s *seen) Leave(retry.Pass, retry.Exit) { s.left++ }

// A transaction that is no part of the one around it has guards of its own. Where that depends
// on the connection, it passes those that the outer one does not have.
func TestGuardsOfTransactionsInside(t *testing.T) {
	accounts, orders := openIdle(t, idle{}), openIdle(t, idle{})
	on := func(db beginner) func(context.Context, retry.Policy, func(context.Context)) {
		return func(ctx context.Context, p retry.Policy, fn func(context.Context)) {
			_, _ = retrysql.Tx(ctx, p, db, nil, func(ctx context.Context, _ *sql.Tx) (int, error) { fn(ctx); return 0, nil })
		}
	}
	onPool := func(ctx context.Context, p retry.Policy, fn func(context.Context)) {
		_, _ = retrysql.TxOf(ctx, p, pool, func(ctx context.Context, _ connected) (int, error) { fn(ctx); return 0, nil })
	}
	outside := func(ctx context.Context, p retry.Policy, fn func(context.Context)) {
		on(accounts)(retrysql.Outside(ctx), p, fn)
	}
	for name, tt := range map[string]struct {
		outer, inner func(context.Context, retry.Policy, func(context.Context))
		shared, own  int // how often the guards of both and of the inner one admit
	}{
		"one db":     {on(accounts), on(accounts), 1, 0},
		"another db": {on(accounts), on(orders), 2, 1},
		"outside":    {on(accounts), outside, 2, 1},
		"pgx in pgx": {onPool, onPool, 1, 1},
		"pgx in Tx":  {on(accounts), onPool, 1, 0},
	} {
		var shared, own seen
		tt.outer(t.Context(), retry.Policy{Guards: []retry.Guard{&shared}}, func(ctx context.Context) {
			tt.inner(ctx, retry.Policy{Guards: []retry.Guard{&shared, &own}}, func(context.Context) {})
		})
		if shared != (seen{tt.shared, tt.shared}) || own != (seen{tt.own, tt.own}) {
			t.Errorf("%s: the guards of both admitted %+v, that of the inner one %+v; want %d and %d", name, shared, own, tt.shared, tt.own)
		}
	}
}
