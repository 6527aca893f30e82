package retrysql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/retrysql"
	"github.com/goretry/retry/retrysql/internal/mysql"
	odd "github.com/goretry/retry/retrysql/internal/odd"
	"github.com/goretry/retry/retrysql/internal/sqlite"
	"github.com/goretry/retry/retrysql/internal/sqlite3"
)

func TestClassify(t *testing.T) {
	deadlock, duplicate := &mysql.MySQLError{Number: 1213}, &mysql.MySQLError{Number: 1062}
	for _, tt := range []struct {
		err  error
		want retry.Class
	}{
		{nil, retry.Unknown},
		{errFlaky, retry.Unknown},
		{state("40001"), retry.Unknown}, // package retry knows it
		{&mysql.MySQLError{Number: 1205}, retry.Transient},
		{&mysql.MySQLError{Number: 1040}, retry.Throttled},
		{&mysql.MySQLError{Number: 1203}, retry.Throttled},
		{&mysql.MySQLError{Number: 1}, retry.Unknown},
		{(*mysql.MySQLError)(nil), retry.Unknown},
		{(*sqlite.Error)(nil), retry.Unknown},
		{sqlite3.Error{Code: 5}, retry.Transient},
		{&sqlite3.Error{Code: 5}, retry.Unknown}, // not mattn's
		{sqlite3.Error{Code: 20}, retry.Permanent},
		{sqlite3.Error{Code: 5 | 2<<8}, retry.Transient},
		{odd.Error(5), retry.Unknown},
		{&sqlite.Error{Extended: 6 | 1<<8}, retry.Transient},
		{&sqlite.Error{Extended: 19 | 8<<8}, retry.Permanent},
		{&sqlite.Error{Extended: 13}, retry.Throttled},
		{&sqlite.Error{Extended: 99}, retry.Unknown},
		{fmt.Errorf("x: %w", deadlock), retry.Transient},
		{errors.Join(nil, errFlaky, deadlock, duplicate), retry.Transient}, // the first that is known
		{errors.Join(duplicate, deadlock), retry.Permanent},
		{errors.Join(errors.Join(deadlock), duplicate), retry.Transient},
		{errors.Join(errors.Join(errFlaky), deadlock), retry.Transient},
		{errors.Join(&retry.Error{}, deadlock), retry.Transient},
		{retry.Stop(deadlock), retry.Transient}, // a mark is looked for before any classifier is asked
		{&retrysql.CommitError{Err: deadlock}, retry.Unknown},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Errs: []error{duplicate, deadlock}}, retry.Transient}, // the last one
		{&retry.Error{Reason: retry.ReasonPermanent, Errs: []error{deadlock}}, retry.Unknown},
		{&retry.Error{}, retry.Unknown},
		{(*retry.Error)(nil), retry.Unknown},
	} {
		if got := retrysql.Classify(tt.err); got != tt.want {
			t.Errorf("Classify(%#v) = %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestRepeatable(t *testing.T) {
	lost := &retrysql.CommitError{Err: driver.ErrBadConn}
	for _, tt := range []struct {
		err  error
		want retry.Class
	}{
		{nil, retry.Unknown},
		{driver.ErrBadConn, retry.Unknown},
		{lost, retry.Transient},
		{fmt.Errorf("x: %w", lost), retry.Transient},
		{&retry.Error{Reason: retry.ReasonPermanent, Errs: []error{lost}}, retry.Transient},
		{&retry.Error{Reason: retry.ReasonPermanent, Errs: []error{lost, state("23505")}}, retry.Unknown}, // the second time has told
	} {
		if got := retrysql.Repeatable(tt.err); got != tt.want {
			t.Errorf("Repeatable(%v) = %v, want %v", tt.err, got, tt.want)
		}
	}
	const want = "retrysql: COMMIT failed, the transaction may have happened: driver: bad connection"
	if lost.Error() != want {
		t.Errorf("%q, want %q", lost.Error(), want)
	}
}

// FuzzClassify makes errors of drivers, of any number, in trees of any shape.
func FuzzClassify(f *testing.F) {
	for _, number := range []int{1, 5, 8, 13, 19, 1040, 1062, 1205, 1213, 3101} {
		f.Add([]byte{0, byte(number >> 8), byte(number), 3, 0, 0, 4, 0, 0})
		f.Add([]byte{1, 3, byte(number), 5, 0, 0, 6, 40001 >> 8, 40001 & 0xff})
		f.Add([]byte{2, 0, byte(number), 3, 0, 0})
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		var err error = errFlaky
		want := retry.Unknown // of the tree so far
		for len(program) >= 3 && len(program) < 1000 {
			op, n := program[0], int(program[1])<<8|int(program[2])
			program = program[3:]
			leaf, class := error(nil), retry.Unknown
			switch op % 7 {
			case 0:
				leaf, class = &mysql.MySQLError{Number: uint16(n)}, retry.Class(clienterr.MySQL(int64(n), "").Class())
			case 1:
				leaf, class = &sqlite.Error{Extended: n - 1<<15}, retry.Class(clienterr.SQLite(int64(n-1<<15)).Class())
			case 2:
				leaf, class = sqlite3.Error{Code: sqlite3.ErrNo(n)}, retry.Class(clienterr.SQLite(int64(n)).Class())
			case 3:
				err = fmt.Errorf("x: %w", err)
				continue
			case 4:
				err = &retry.Error{Reason: retry.ReasonMaxAttempts, Errs: []error{errFlaky, err}}
				if retry.DefaultClassifier(err) == retry.Permanent { // an inner run's word
					want = retry.Unknown
				}
				continue
			case 5:
				err, want = &retrysql.CommitError{Err: err}, retry.Unknown
				continue
			case 6:
				leaf = state(fmt.Sprintf("%05d", n))
			}
			err = errors.Join(leaf, err)
			if class != retry.Unknown {
				want = class
			}
		}
		if got := retrysql.Classify(err); got != want {
			t.Fatalf("Classify(%#v) = %v, want %v", err, got, want)
		}
		// Whatever COMMIT says, the transaction is repeated only if it was rolled back.
		tx := &fake{commit: err}
		_, end := tx.tx(context.Background(), retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, nil)
		if _, lost := errors.AsType[*retrysql.CommitError](end); lost && len(tx.calls) != 4 {
			t.Fatalf("%v was repeated: %v", err, tx.calls)
		}
	})
}
