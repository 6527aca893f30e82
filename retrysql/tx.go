package retrysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/errtree"
)

// Tx runs fn in a transaction of db, which is a *[sql.DB], a *[sql.Conn] or a type
// that wraps one, and commits it. After an error that is worth a retry it does all of
// that again, from BEGIN. It returns fn's value, or the zero T and a *[retry.Error].
// Nil opts means the driver's default isolation level.
//
// fn may run several times, so it must have no effects outside tx. It must not end tx
// or keep it. Its context is the attempt's. A Tx of the same db in that context makes
// one attempt without guards, since only the outermost transaction can be repeated. The package
// documentation lists the rules. If opts say ReadOnly, there is nothing to commit, so the
// transaction may be repeated after any error of COMMIT.
//
// Tx may be called concurrently if db may. It panics if fn, db, or the *sql.DB or
// *sql.Conn in db is nil.
func Tx[T any](ctx context.Context, p retry.Policy, db interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}, opts *sql.TxOptions, fn func(context.Context, *sql.Tx) (T, error)) (T, error) {
	if db == nil || db == (*sql.DB)(nil) || db == (*sql.Conn)(nil) {
		panic("retrysql: nil db")
	}
	if fn == nil {
		panic("retrysql: nil fn")
	}
	begin := func(ctx context.Context) (stdTx, error) {
		if pool, ok := db.(*sql.DB); ok {
			return beginOn(ctx, pool, opts)
		}
		tx, err := db.BeginTx(ctx, opts)
		return stdTx{tx}, err
	}
	return run(ctx, p, db, opts != nil && opts.ReadOnly, begin, func(ctx context.Context, tx stdTx) (T, error) { return fn(ctx, tx.Tx) })
}

// stdTx ignores the contexts: database/sql has that of BeginTx.
type stdTx struct{ *sql.Tx }

func (t stdTx) Commit(context.Context) error   { return t.Tx.Commit() }
func (t stdTx) Rollback(context.Context) error { return t.Tx.Rollback() }

// TxOf is [Tx] for the transactions of other packages, such as pgx.Tx. Pass pool.Begin
// as begin, or a func that calls BeginTx. If Commit and Rollback of a type take no
// context, wrap it in a type that adds one: see the example.
//
// Commit gets a context that ends 5 s after the attempt's: if the caller's end cut a
// COMMIT, nobody would know whether it happened. Rollback is called after any error,
// also after one of Commit, with a context that ends after 5 s. Both contexts have the
// caller's values, and their 5 s are of real time. TxOf panics if begin or fn is nil.
func TxOf[X interface {
	Commit(context.Context) error
	Rollback(context.Context) error
}, T any](ctx context.Context, p retry.Policy, begin func(context.Context) (X, error), fn func(context.Context, X) (T, error)) (T, error) {
	if begin == nil {
		panic("retrysql: nil begin")
	}
	if fn == nil {
		panic("retrysql: nil fn")
	}
	return run(ctx, p, nil, false, begin, fn)
}

// transaction is the X of TxOf.
type transaction interface {
	Commit(context.Context) error
	Rollback(context.Context) error
}

// run makes the attempts of Tx, with its db, and of TxOf. readOnly transactions change
// nothing.
func run[X transaction, T any](ctx context.Context, p retry.Policy, db any, readOnly bool, begin func(context.Context) (X, error), fn func(context.Context, X) (T, error)) (T, error) {
	guards := p.Guards
	if len(guards) > 0 {
		in := &inside{db: db}
		if outer := in.around(ctx); outer != nil {
			p.Guards = in.admitting(guards, outer)
			guards = append(slices.Clip(outer.guards), p.Guards...) // those inside in were admitted by all of them
		}
	}
	a := p.Attempts(ctx)
	defer a.Close()
	again := false // the attempt before was at a server that takes no writes
	for a.Next() {
		in := &inside{Context: a.Context(), db: db, readOnly: readOnly, guards: guards}
		v, err := once(in, begin, fn)
		if err == nil {
			a.Done(nil)
			return v, nil
		}
		if pool, ok := db.(*sql.DB); ok && in.demoted(err) {
			if again {
				closeIdle(in, pool)
			}
			again = true
		} else {
			again = false
		}
		verdict := judge(p, err)
		if p.Ends(verdict) == retry.ReasonNone && in.around(ctx) != nil {
			verdict.End = retry.ReasonMaxAttempts
		}
		a.Judged(verdict)
	}
	return *new(T), a.Err()
}

// once makes one attempt. With an error its value is meaningless.
func once[X transaction, T any](ctx *inside, begin func(context.Context) (X, error), fn func(context.Context, X) (T, error)) (v T, err error) {
	tx, err := begin(ctx)
	if err != nil {
		return v, because(ctx, err)
	}
	ctx.tx = tx
	committed, failed := false, false
	defer func() { // also after a panic or Goexit
		defer ctx.over.Store(true)
		var late error // of ROLLBACK
		defer func() { ctx.leave(err, late) }()
		if committed {
			return
		}
		switch late = rollback(ctx, tx.Rollback); {
		case failed && errtree.Holds(late, sql.ErrTxDone) && ctx.Err() == nil: // maybe by a COMMIT
			err = retry.Stop(fmt.Errorf("%w (fn ended the transaction: %w)", err, late))
		case refused(late) && (failed || !uncertain(err)): // the next BEGIN on that connection would commit it
			err = retry.Stop(fmt.Errorf("%w (the transaction may be open still: ROLLBACK: %w)", err, late))
		}
	}()
	if v, err = fn(ctx, tx); err != nil || ctx.Err() != nil {
		failed = true
		return v, because(ctx, err)
	}
	if err = commit(ctx, tx); err != nil {
		return v, uncommitted(ctx, err)
	}
	committed = true
	return v, nil
}

// because adds to an attempt's error why its context has ended, if it has. The cause
// comes first, so that it decides the class of an ErrTxDone that it has led to.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return cause
	case cause == nil || errtree.Holds(err, cause):
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

func commit(ctx *inside, tx transaction) error {
	defer ctx.commit.close()
	return tx.Commit(ctx.commit.of(ctx.Context))
}

// rollback ends a transaction that was not committed. If that fails, the server rolls
// back when it notices that the connection is lost.
func rollback(ctx context.Context, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return end(ctx)
}

// uncommitted returns what an error of COMMIT means.
func uncommitted(ctx *inside, err error) error {
	switch done := errtree.Holds(err, sql.ErrTxDone); {
	case done && ctx.Err() == nil: // fn has ended it
		return retry.Stop(err)
	case done, ctx.readOnly: // database/sql has ended it with ctx, or there was nothing to commit
		return because(ctx, err)
	}
	answer := rolledBack(err)
	if answer == nil {
		return &CommitError{err}
	}
	if (retry.Policy{}).Judge(err).Marked { // otherwise the mark would decide
		return answer
	}
	return err
}

// judge returns what an attempt's error means. A transaction that was rolled back did
// not happen. If the server has said so, a retry is no extra load: it is a conflict
// that has used up nothing but time. If the transaction may have happened, only p knows
// more.
func judge(p retry.Policy, err error) retry.Verdict {
	if uncertain(err) {
		return p.Judge(err)
	}
	p.Classify = retry.Classifiers(p.Classify, classifyAttempt)
	v := p.Judge(err)
	v.Undone = true
	if v.Class == retry.Transient && !v.Answered {
		v.Class, v.Answered = retry.Unprocessed, rolledBack(err) != nil && !demoted(err)
	}
	return v
}
