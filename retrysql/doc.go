// Package retrysql repeats database transactions that fail temporarily:
//
//	balance, err := retrysql.Tx(ctx, db, policy, &sql.TxOptions{Isolation: sql.LevelSerializable},
//		func(ctx context.Context, tx *sql.Tx) (int, error) {
//			return withdraw(ctx, tx, account, amount)
//		})
//
// A serialization failure or a deadlock rolls the whole transaction back, so the
// whole transaction has to run again, not the statement that failed. [Tx] does that
// for database/sql, [TxOf] for pgx and for everything else that has a Commit and a
// Rollback.
//
// # The rules of a transaction
//
// Each attempt of the run is one transaction. In order:
//
//  1. If BEGIN fails, nothing has happened. (database/sql has by then tried another
//     connection for driver.ErrBadConn, up to three times.)
//  2. If fn fails, panics or calls runtime.Goexit, the transaction is rolled back,
//     even if the caller's context has ended. What was rolled back did not happen:
//     it is repeated under Policy.NonIdempotent too, unless its error is Permanent.
//  3. If the attempt's context has ended, there is no COMMIT, and the error holds
//     the context's cause.
//  4. If COMMIT fails, the error decides. The server's word that it rolled back is
//     believed: SQLSTATE classes 40 (without 40003) and 23 and 25P02, MySQL's 1213
//     and 1205, SQLite's BUSY, LOCKED and CONSTRAINT. Then rule 2 holds. After
//     [database/sql.ErrTxDone], which says that fn has ended the transaction
//     itself, the run stops. Anything else is a [CommitError]: the
//     transaction may have happened. Marks of [retry.Stop] and [retry.After] in an
//     error of COMMIT count for nothing.
//  5. With an error comes the zero value: what fn returned did not happen.
//  6. A transaction within the context of another one makes one attempt. A
//     savepoint cannot cure a serialization failure; the outer transaction is
//     repeated.
//  7. Waits, limits, budgets and hooks are those of [retry.Do]. Hooks and outer runs
//     see a Transient or TimedOut error of what was rolled back as Unprocessed.
//
// An error is judged by Policy.Classify, then [Classify], then
// [retry.DefaultClassifier]. Policy.Classify may be asked twice about the same
// error. A [CommitError] is Permanent unless Policy.Classify says otherwise; under
// Policy.NonIdempotent the run then ends with ReasonNotIdempotent.
//
// # What fn must not do
//
// It must not end the transaction. It must return the errors of its statements: a
// deadlock in MySQL has already rolled everything back, and what follows it would be
// committed one by one; PostgreSQL refuses the COMMIT, which pgx tells as
// ErrTxCommitRollback and lib/pq as ErrInFailedTransaction. Those two, and pgx's
// ErrTxClosed for a fn that has ended the transaction, arrive in a CommitError:
// without importing the drivers they cannot be told from a lost connection. Nor can
// be seen that a fn has committed a pgx.Tx and then failed: it would run again.
package retrysql
