package retrysql

import (
	"database/sql"
	"fmt"
	"reflect"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/errtree"
)

// CommitError says that COMMIT failed and that nobody knows whether the transaction
// happened: the connection may have been lost after the server had committed. It is
// Permanent unless Policy.Classify returns another class, as [Repeatable] does.
//
// It does not unwrap to Err. Err is for people: even a driver.ErrBadConn does not
// prove that nothing happened.
type CommitError struct{ Err error }

// Error returns the text of Err, and says that the outcome is unknown.
func (e *CommitError) Error() string {
	return fmt.Sprintf("retrysql: COMMIT failed, the transaction may have happened: %v", e.Err)
}

// Retryable returns false, so that runs around Tx do not repeat it either.
func (e *CommitError) Retryable() bool { return false }

// uncertain reports whether err says that a transaction may have happened.
func uncertain(err error) bool {
	_, ok := errtree.Find[*CommitError](err)
	return ok
}

// Repeatable is a [retry.Classifier] for transactions that may happen twice. It
// returns Transient for a [CommitError], and Unknown for other errors. In an inner run
// it checks only the last error. Set it as Policy.Classify. Policy.NonIdempotent
// overrides it.
func Repeatable(err error) retry.Class {
	if errtree.Walk(err, func(err error) errtree.Next { return when(isCommitError(err)) }) {
		return retry.Transient
	}
	return retry.Unknown
}

func isCommitError(err error) bool {
	_, ok := err.(*CommitError)
	return ok
}

// when returns Stop if yes is true, and else Into.
func when(yes bool) errtree.Next {
	if yes {
		return errtree.Stop
	}
	return errtree.Into
}

// Classify is a [retry.Classifier] that returns Permanent for the errors of a closed
// *sql.DB or pgxpool.Pool. It also knows the numbers of errors whose types have the names of
// those of github.com/go-sql-driver/mysql, github.com/mattn/go-sqlite3 and
// modernc.org/sqlite, such as a copy's. It returns Unknown for all others:
// [retry.DefaultClassifier] knows the drivers. [Tx] and [TxOf] call it after
// Policy.Classify. You can use it in any policy.
func Classify(err error) (class retry.Class) { return retry.Class(facts(err).Class()) }

// classifyAttempt is Classify for an attempt of a run of Tx: what is permanent, but mended by a
// new session, is Transient, because the next attempt is a new transaction. A table of codes has to
// say so: a name that is not found stays Permanent.
func classifyAttempt(err error) retry.Class {
	f := facts(err)
	if !f.Is(clienterr.Renewed) && (f != 0 || !errtree.Walk(err, func(err error) errtree.Next { return when(clienterr.Renews(err)) })) {
		return retry.Class(f.Class())
	}
	if whole := clienterr.Judge(err); whole != 0 && !whole.Is(clienterr.Renewed) {
		return retry.Unknown // another error in it decides
	}
	return retry.Transient
}

// facts returns what Classify knows of err, 0 if it does not know the class.
func facts(err error) (f clienterr.Facts) {
	errtree.Walk(err, func(err error) errtree.Next {
		if e, ok := err.(*retry.Error); ok && (e.Undone || retry.DefaultClassifier(e) == retry.Permanent) {
			return errtree.Stop // it says for itself what it is
		}
		if f = own(err); f.Class() == clienterr.Unknown {
			f = 0
		}
		return when(f != 0)
	})
	return f
}

// own returns what Classify knows of err itself, without what it wraps.
func own(err error) clienterr.Facts {
	if _, is := clienterr.Database(err); is {
		return 0 // DefaultClassifier knows more: whether a queue's message is to blame
	}
	switch system, number := code(err); system {
	case mysql:
		return clienterr.MySQL(number, message(err))
	case sqlite:
		return clienterr.SQLite(number)
	}
	if closedPool(err) {
		return clienterr.Facts(clienterr.Permanent)
	}
	return 0
}

// closedPool reports whether err itself is the error of a closed pool. Neither
// database/sql nor pgxpool has a type for it, and only the latter exports the value.
func closedPool(err error) bool {
	if reflect.TypeOf(err) != plain {
		return false
	}
	text := err.Error()
	return text == "sql: database is closed" || text == "closed pool"
}

// refused reports whether a MySQL server has answered ROLLBACK with an error. Then the
// connection lives, and may still be in its transaction. PostgreSQL never refuses a
// ROLLBACK, and SQLite only without a transaction.
func refused(err error) bool {
	return errtree.Walk(err, func(err error) errtree.Next {
		system, _ := code(err)
		return when(system == mysql)
	})
}

// rolledBack returns the server's error within an error, if it says that the
// transaction was rolled back and no other error in the tree says otherwise. Else it
// returns nil.
func rolledBack(err error) (answer error) {
	doubt := errtree.Walk(err, func(err error) errtree.Next {
		says, is := factsOf(err)
		if !is {
			return errtree.Into
		}
		if answer == nil {
			answer = err
		}
		return when(!says.Is(clienterr.RolledBack))
	})
	if doubt {
		return nil
	}
	return answer
}

// factsOf returns what a database says with err itself. is reports whether err is one's.
func factsOf(err error) (says clienterr.Facts, is bool) {
	switch system, number := code(err); system {
	case mysql:
		return clienterr.MySQL(number, message(err)), true
	case sqlite:
		return clienterr.SQLite(number), true
	}
	switch err.(type) {
	case *retry.Error, *CommitError: // of a COMMIT that is a run of its own
		return 0, true
	}
	return clienterr.Database(err)
}

// The database systems whose drivers have numbers of their own.
const (
	none = iota
	mysql
	sqlite
)

// code returns the number of err itself, without what it wraps, and the system that it
// belongs to. err must not be a nil pointer.
func code(err error) (system int, number int64) {
	v := reflect.ValueOf(err)
	switch v.Type().String() {
	case "*mysql.MySQLError":
		if v = field(v.Elem(), "Number"); v.CanUint() {
			return mysql, int64(v.Uint())
		}
	case "sqlite3.Error": // of mattn
		if v = field(v, "Code"); v.CanInt() {
			return sqlite, v.Int()
		}
	case "*sqlite.Error": // of modernc
		if e, ok := err.(interface{ Code() int }); ok {
			return sqlite, int64(e.Code())
		}
	}
	return none, 0
}

// message returns the text of an error of MySQL without its number.
func message(err error) string {
	if v := field(reflect.ValueOf(err).Elem(), "Message"); v.Kind() == reflect.String {
		return v.String()
	}
	return ""
}

// field returns the invalid Value if v is not a struct or has no such field.
func field(v reflect.Value, name string) reflect.Value {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

// plain is the type of what errors.New returns.
var plain = reflect.TypeOf(sql.ErrTxDone)
