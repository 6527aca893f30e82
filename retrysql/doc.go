// Package retrysql repeats database transactions that fail temporarily:
//
//	balance, err := retrysql.Tx(ctx, policy, db, &sql.TxOptions{Isolation: sql.LevelSerializable},
//		func(ctx context.Context, tx *sql.Tx) (int, error) {
//			return withdraw(ctx, tx, account, amount)
//		})
//
// A serialization failure or a deadlock rolls the whole transaction back, so the whole
// transaction has to run again, not the statement that failed. [Tx] does that for
// database/sql, and [TxOf] for pgx and every other type that has a Commit and a
// Rollback.
//
// # The rules of a transaction
//
// Each attempt of the run is one transaction. In order:
//
//  1. If BEGIN fails, nothing has happened. (If the driver
//     returned driver.ErrBadConn, database/sql has by then tried several connections.)
//  2. If fn fails, panics or calls runtime.Goexit, the transaction is rolled back,
//     even if the caller's context has ended. What was rolled back did not happen: it
//     is repeated under Policy.NonIdempotent too, unless its error is Permanent. If a
//     MySQL server refuses the ROLLBACK, the run stops: the connection goes back to
//     its pool with the transaction open, and the next BEGIN commits that. If the
//     connection is lost, the server rolls back, and the run goes on.
//  3. If the attempt's context has ended, there is no COMMIT, and the error holds
//     the context's cause. A COMMIT underway is not cut by that: [TxOf] gives it 5 s
//     more.
//  4. If COMMIT fails, the error decides. These errors say that the server has rolled
//     back: SQLSTATE classes 40 (without 40003) and 23 and 25P02; of MySQL, MariaDB and TiDB
//     1020, 1205, 1213, 1290, 3101, 8028, 9007 and others; of SQL Server 1205, 3960, 41301,
//     41302, 41305, 41325 and others; SQLite's BUSY, LOCKED and CONSTRAINT. Then rule 2
//     holds. After
//     [database/sql.ErrTxDone] the run stops, since fn has ended the transaction
//     itself. But if the attempt's context has ended, database/sql has rolled back,
//     and rule 3 holds. Anything else is a [CommitError]: the transaction may have
//     happened, unless opts of [Tx] say that it is ReadOnly. Marks of [retry.Stop] and
//     [retry.After] in an error of COMMIT are ignored.
//  5. With an error, the value is zero: what fn returned did not happen.
//  6. A transaction within the context of another one that is still open makes one
//     attempt, and Policy.Guards are not called: they have admitted the outer one. A
//     savepoint cannot undo a serialization failure, so the outer transaction is
//     repeated. This rule does not hold for a Tx on another db than that
//     of the Tx around it; for a TxOf in a TxOf if both transactions have a method Conn,
//     as pgx's do, and the connections differ; in a [context.WithoutCancel] of the outer
//     transaction's context; and in the context that [Outside] returns. Whether a Tx and
//     a TxOf are on the same database cannot be seen, so the rule holds for them. If
//     it depends on the connection, guards that the outer one does not have are called.
//  7. Waits, limits, budgets and hooks are those of [retry.Do]. A Transient error of a
//     transaction that was rolled back is Unprocessed, but for [retry.ErrRejected]. If
//     it is a conflict, the retry takes nothing from the budget: the database has
//     answered. A conflict is what rule 4 knows as rolled back. A TimedOut error
//     stays TimedOut, because the database may still be at work. To outer runs the
//     *[retry.Error] of a run whose transactions were all rolled back is Unprocessed,
//     unless it is Permanent.
//  8. After a failover the connections of a pool may still lead to a server that takes no
//     writes any more. If it says so, and opts do not say ReadOnly, a Tx on a *[sql.DB]
//     closes its connection in place of giving it back. If the next attempt meets such a
//     server, too, it closes the pool's other idle ones. The budget pays for these
//     retries. Such errors are SQLSTATE 25006, a standby's refusal of the isolation level, and
//     of MySQL 1792, 1836, and 1290 if its text says read-only.
//
// An error is judged by Policy.Classify, then [Classify], then
// [retry.DefaultClassifier]. A code that is permanent for a call, but mended by a new session, is
// Transient: SQLite's ABORT_ROLLBACK, say, or Oracle's snapshot that is too old. A [CommitError] is Permanent unless Policy.Classify
// returns another class. Under Policy.NonIdempotent the run then ends with
// ReasonNotIdempotent.
//
// # What fn must not do
//
// It must not end the transaction. It must return the errors of its statements. In
// MySQL a deadlock has already rolled everything back, and each further statement
// would be committed by itself. PostgreSQL refuses the COMMIT, which pgx reports as
// ErrTxCommitRollback and lib/pq as ErrInFailedTransaction. These two, and pgx's
// ErrTxClosed for a fn that has ended the transaction, become a CommitError, since
// without importing the drivers they look like a lost connection.
//
// A fn that commits by itself and then fails runs again in two cases, and what it
// committed happens twice. In the first, the transaction is a pgx.Tx, which does not
// say how it has ended. In the second, the attempt's time is over, since database/sql
// has then ended the transaction too. In MySQL every DDL statement, such as CREATE
// TABLE, is such a commit.
//
// # What may take long
//
// The attempt's context ends the statements of fn. TxOf ends a COMMIT 5 s after that
// context has ended, and a ROLLBACK after 5 s. Most drivers of database/sql end neither: these need a limit of their own if a server has
// gone silent. docs/sql.md lists the settings.
package retrysql
