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
//     If a MySQL server refuses the ROLLBACK the run stops: the connection goes
//     back to its pool with the transaction open, and the next BEGIN commits it.
//     If the connection is lost the server rolls back, and the run goes on.
//  3. If the attempt's context has ended, there is no COMMIT, and the error holds
//     the context's cause.
//  4. If COMMIT fails, the error decides. The server's word that it rolled back is
//     believed: SQLSTATE classes 40 (without 40003) and 23 and 25P02, MySQL's 1213
//     and 1205, SQLite's BUSY, LOCKED and CONSTRAINT. Then rule 2 holds. After
//     [database/sql.ErrTxDone] the run stops, since fn has ended the transaction
//     itself; but if the attempt's context has ended it is database/sql that has
//     rolled back, and rule 3 holds. Anything else is a [CommitError]: the
//     transaction may have happened, unless opts of [Tx] say that it is ReadOnly.
//     Marks of [retry.Stop] and [retry.After] in an error of COMMIT are ignored.
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
// without importing the drivers they cannot be told from a lost connection.
//
// A fn that commits by itself and then fails runs again in two cases, and what it
// committed happens twice: if the transaction is a pgx.Tx, which does not say how it
// has ended; and if the attempt's time is over, since database/sql has then ended
// the transaction as well. In MySQL every statement that defines something, such as
// CREATE TABLE, is such a commit.
//
// # What may take long
//
// The attempt's context ends the statements of fn. It does not end a COMMIT or
// ROLLBACK in most drivers of database/sql: against a server that has gone silent
// they need a limit of their own. docs/sql.md lists the settings.
package retrysql
