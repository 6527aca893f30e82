package retrysql

import (
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"reflect"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
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
	_, ok := errors.AsType[*CommitError](err)
	return ok
}

// Repeatable is a [retry.Classifier] for transactions that may happen twice. It
// returns Transient for a [CommitError], and Unknown for other errors. In an inner run
// it checks only the last error. Set it as Policy.Classify. Policy.NonIdempotent
// overrides it.
func Repeatable(err error) retry.Class {
	for e := range tree(err) {
		if _, ok := e.(*CommitError); ok {
			return retry.Transient
		}
	}
	return retry.Unknown
}

// Classify is a [retry.Classifier] that knows the numbers of
// github.com/go-sql-driver/mysql, github.com/mattn/go-sqlite3 and modernc.org/sqlite,
// whose errors it recognizes by the name of their type. It returns Permanent for the
// errors of a closed *sql.DB or pgxpool.Pool, and Unknown for all others:
// [retry.DefaultClassifier] knows SQLSTATE. [Tx] and [TxOf] call it after
// Policy.Classify. You can use it in any policy.
func Classify(err error) retry.Class {
	for e := range tree(err) {
		switch e := e.(type) {
		case *undone: // says for itself that it is Unprocessed
			return retry.Unknown
		case *retry.Error:
			if retry.DefaultClassifier(e) == retry.Permanent {
				return retry.Unknown
			}
		}
		switch system, number := code(e); system {
		case mysql:
			if c := retry.Class(clienterr.MySQL(number)); c != retry.Unknown {
				return c
			}
		case sqlite:
			switch number {
			case 5, 6: // BUSY, LOCKED
				return retry.Transient
			case 1, 8, 19, 20: // ERROR, READONLY, CONSTRAINT, MISMATCH
				return retry.Permanent
			}
		}
		if closedPool(e) {
			return retry.Permanent
		}
	}
	return retry.Unknown
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
	for e := range tree(err) {
		if system, _ := code(e); system == mysql {
			return true
		}
	}
	return false
}

// rolledBack returns the server's error within an error of COMMIT, if it says that the
// transaction was rolled back and no other error in the tree says otherwise. Else it
// returns nil.
func rolledBack(err error) (answer error) {
	for e := range tree(err) {
		yes := false
		switch system, number := code(e); system {
		case mysql:
			yes = number == 1213 || number == 1205
		case sqlite:
			yes = number == 5 || number == 6 || number == 19
		default:
			switch e := e.(type) {
			case *retry.Error, *CommitError: // of a COMMIT that is a run of its own
			case interface{ SQLState() string }:
				state := e.SQLState()
				yes = len(state) == 5 && (state[:2] == "40" && state != "40003" || state[:2] == "23" || state == "25P02")
			default:
				continue
			}
		}
		if !yes {
			return nil
		}
		if answer == nil {
			answer = e
		}
	}
	return answer
}

// The database systems whose drivers have numbers of their own.
const (
	none = iota
	mysql
	sqlite
)

// code returns the number of err itself, without what it wraps, and the system that it
// belongs to.
func code(err error) (system int, number int64) {
	v := reflect.ValueOf(err)
	switch v.Type().String() {
	case "*mysql.MySQLError":
		if v = field(v.Elem(), "Number"); v.CanUint() {
			return mysql, int64(v.Uint())
		}
	case "sqlite3.Error": // of mattn
		if v = field(v, "Code"); v.CanInt() {
			return sqlite, v.Int() & 0xff
		}
	case "*sqlite.Error": // of modernc
		if e, ok := err.(interface{ Code() int }); ok && !v.IsNil() {
			return sqlite, int64(e.Code()) & 0xff
		}
	}
	return none, 0
}

// field returns the invalid Value if v is not a struct or has no such field.
func field(v reflect.Value, name string) reflect.Value {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

// tree returns err and what it wraps, depth first, as errors.As walks it. From an
// inner run it takes only the last error.
func tree(err error) iter.Seq[error] {
	return func(yield func(error) bool) { walk(err, yield) }
}

func walk(err error, visit func(error) bool) bool {
	for err != nil {
		if !visit(err) {
			return false
		}
		switch e := err.(type) {
		case *retry.Error:
			err = e.Last()
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				if !walk(err, visit) {
					return false
				}
			}
			return true
		default:
			return true
		}
	}
	return true
}

// informed returns the classifier of the policy that Do gets. For an undone error the
// caller's classifier has already been called.
func informed(own retry.Classifier) retry.Classifier {
	if own == nil {
		return classify
	}
	return func(err error) retry.Class {
		if _, ok := err.(*undone); !ok {
			if c := own(err); c != retry.Unknown {
				return c
			}
		}
		return classify(err)
	}
}

// classify is Classify for the run of a transaction.
func classify(err error) retry.Class {
	if e, ok := err.(*undone); ok && e.timedOut {
		return retry.TimedOut
	}
	return Classify(err)
}

// undone is the error of a transaction that was rolled back and is worth another
// attempt. Its own class goes before that of what it wraps.
type undone struct {
	error
	timedOut bool // to this run, whose budget pays for it; to outer runs it is Unprocessed
}

func (e *undone) Unwrap() error     { return e.error }
func (e *undone) SafeToRetry() bool { return true }

// ErrorType returns the error.type of what is wrapped, by the rule of
// OpenTelemetry's conventions, so that telemetry does not show this type instead.
func (e *undone) ErrorType() string {
	if own, ok := errors.AsType[interface {
		error
		ErrorType() string
	}](e.error); ok {
		return own.ErrorType()
	}
	err := e.error
	for wrapped := errors.Unwrap(err); wrapped != nil && reflect.TypeOf(err) == wrapper; wrapped = errors.Unwrap(err) {
		err = wrapped
	}
	t := reflect.TypeOf(err)
	if t.PkgPath() == "" {
		return t.String()
	}
	return t.PkgPath() + "." + t.Name()
}

// The types of what errors.New and fmt.Errorf return.
var (
	plain   = reflect.TypeOf(sql.ErrTxDone)
	wrapper = reflect.TypeOf(fmt.Errorf("%w", sql.ErrTxDone))
)
