package retrysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/budgettest"
	"github.com/goretry/retry/internal/clienterr/oracle"
	"github.com/goretry/retry/retrysql"
	"github.com/goretry/retry/retrysql/internal/mysql"
	"github.com/goretry/retry/retrysql/internal/sqlite"
	"github.com/goretry/retry/retrysql/internal/sqlite3"
	"github.com/goretry/retry/retrytest"
)

// What comes of each error, for every policy: what was rolled back may be repeated
// though it must not happen twice.
func TestWhatWasRolledBackIsRepeated(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	lost := &retrysql.CommitError{Err: driver.ErrBadConn}
	for _, tt := range []struct {
		name  string
		where place
		err   error
		class retry.Class // which the hooks see, of the first attempt
		again bool
	}{
		{"BEGIN, unknown", atBegin, errFlaky, retry.Unprocessed, true},
		{"BEGIN, refused", atBegin, refused, retry.Unprocessed, true},
		{"BEGIN, too many connections", atBegin, state("53300"), retry.Throttled, true},
		{"BEGIN, no such database", atBegin, state("3D000"), retry.Permanent, false},

		{"fn, unknown", atFn, errFlaky, retry.Unprocessed, true},
		{"fn, serialization failure", atFn, state("40001"), retry.Unprocessed, true},
		{"fn, deadlock of MySQL", atFn, &mysql.MySQLError{Number: 1213}, retry.Unprocessed, true},
		{"fn, connection lost", atFn, state("08006"), retry.Unprocessed, true},
		{"fn, nothing sent", atFn, unsent{}, retry.Unprocessed, true},
		{"fn, bad connection", atFn, driver.ErrBadConn, retry.Unprocessed, true},
		{"fn, timed out", atFn, context.DeadlineExceeded, retry.TimedOut, true},
		{"BEGIN, timed out", atBegin, context.DeadlineExceeded, retry.TimedOut, true},
		{"fn, rejected", atFn, retry.ErrRejected, retry.Transient, true},
		{"fn, rejected, wrapped", atFn, fmt.Errorf("%w", retry.ErrRejected), retry.Transient, true},
		{"fn, throttled", atFn, state("53200"), retry.Throttled, true},
		{"fn, After", atFn, retry.After(errFlaky, time.Second), retry.Throttled, true},
		{"fn, Stop", atFn, retry.Stop(state("40001")), retry.Permanent, false},
		{"fn, unique violation", atFn, state("23505"), retry.Permanent, false},
		{"fn, no rows", atFn, sql.ErrNoRows, retry.Permanent, false},
		{"fn, COMMIT of another transaction", atFn, lost, retry.Permanent, false},
		{"fn, COMMIT of another transaction, wrapped", atFn, fmt.Errorf("%w", lost), retry.Permanent, false},
		{"fn, another run that gave up", atFn, &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{errFlaky}}, retry.Unprocessed, true},
		{"fn, another run that must not repeat", atFn, &retry.Error{Reason: retry.ReasonNotIdempotent, Attempts: 1, Errs: []error{errFlaky}}, retry.Permanent, false},

		{"COMMIT, serialization failure", atCommit, state("40001"), retry.Unprocessed, true},
		{"COMMIT, deadlock", atCommit, state("40P01"), retry.Unprocessed, true},
		{"COMMIT, 40000", atCommit, state("40000"), retry.Unprocessed, true},
		{"COMMIT, aborted transaction", atCommit, state("25P02"), retry.Unprocessed, true},
		{"COMMIT, deferred constraint", atCommit, state("23503"), retry.Permanent, false},
		{"COMMIT, wrapped", atCommit, fmt.Errorf("x: %w", fmt.Errorf("%w: %w", errFlaky, state("40001"))), retry.Unprocessed, true},
		{"COMMIT, Stop", atCommit, retry.Stop(state("40001")), retry.Unprocessed, true},
		{"COMMIT, After of a deferred constraint", atCommit, fmt.Errorf("x: %w", retry.After(state("23505"), time.Hour)), retry.Permanent, false},
		{"COMMIT, deadlock of MySQL", atCommit, &mysql.MySQLError{Number: 1213}, retry.Unprocessed, true},
		{"COMMIT, lock wait timeout of MySQL", atCommit, &mysql.MySQLError{Number: 1205}, retry.Unprocessed, true},
		{"COMMIT, SQLite is busy", atCommit, &sqlite.Error{Extended: 5}, retry.Unprocessed, true},
		{"COMMIT, SQLite's snapshot is busy", atCommit, &sqlite.Error{Extended: 517}, retry.Unprocessed, true},
		{"COMMIT, SQLite is locked", atCommit, sqlite3.Error{Code: 6}, retry.Unprocessed, true},
		{"COMMIT, constraint of SQLite", atCommit, &sqlite.Error{Extended: 787}, retry.Permanent, false},
		{"COMMIT, fn ended it", atCommit, sql.ErrTxDone, retry.Permanent, false},
		{"COMMIT, fn ended it, wrapped", atCommit, fmt.Errorf("x: %w", sql.ErrTxDone), retry.Permanent, false},
	} {
		for _, nonIdempotent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", tt.name, nonIdempotent), func(t *testing.T) {
				h := retrytest.New(t, retry.Policy{NonIdempotent: nonIdempotent})
				var f fake
				var inFn error
				switch tt.where {
				case atBegin:
					f.begin = tt.err
				case atFn:
					inFn = tt.err
				case atCommit:
					f.commit = tt.err
				}
				v, err := f.tx(t.Context(), h.Policy, inFn)
				if _, ok := errors.AsType[*retrysql.CommitError](err); ok && tt.where == atCommit {
					t.Errorf("%v is a CommitError", err)
				}
				if v != 0 {
					t.Errorf("value %d of a transaction that did not happen, want 0", v)
				}
				if got := h.Attempts()[0].Class; got != tt.class {
					t.Errorf("%v is %v, want %v", tt.err, got, tt.class)
				}
				if tt.again {
					h.AssertAttempts(3)
					h.AssertReason(retry.ReasonMaxAttempts)
				} else {
					h.AssertAttempts(1)
					h.AssertReason(retry.ReasonPermanent)
				}
			})
		}
	}
}

// The database may still be at work on what timed out, although it will roll it back:
// the budget of this run pays for that. An outer run may repeat it all the same.
func TestTimeoutIsPaidForAndSafeToRepeat(t *testing.T) {
	var budget retry.EarnedBudget
	h := retrytest.New(t, retry.Policy{AttemptTimeout: time.Second, MaxAttempts: 20, Budget: &budget})
	var f fake
	_, err := f.tx(t.Context(), h.Policy, context.DeadlineExceeded)
	h.AssertReason(retry.ReasonBudget)
	h.AssertAttempts(1) // a retry after a timeout costs more than a budget begins with
	if c := retry.DefaultClassifier(err); c != retry.Unprocessed {
		t.Errorf("to an outer run it is %v, want unprocessed", c)
	}
}

type place int

const (
	atBegin place = iota
	atFn
	atCommit
)

// Nothing that COMMIT says is believed, but that the transaction was rolled back.
func TestCommitError(t *testing.T) {
	for name, says := range map[string]error{
		"bad connection":            driver.ErrBadConn,
		"nothing sent":              unsent{},
		"refused":                   &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"outcome unknown":           state("40003"),
		"connection lost":           state("08006"),
		"transaction unknown":       state("08007"),
		"not connected":             state("08001"),
		"server starting":           state("57P03"),
		"too many connections":      state("53300"),
		"serialization, cut short":  state("4000"),
		"no SQLSTATE":               state(""),
		"canceled":                  context.Canceled,
		"timeout":                   context.DeadlineExceeded,
		"EOF":                       fmt.Errorf("unexpected EOF"),
		"duplicate key of MySQL":    &mysql.MySQLError{Number: 1062},
		"shutdown of MySQL":         &mysql.MySQLError{Number: 1053},
		"too many at MySQL":         &mysql.MySQLError{Number: 1040},
		"I/O of SQLite":             &sqlite.Error{Extended: 10},
		"full SQLite":               sqlite3.Error{Code: 13},
		"Stop":                      retry.Stop(errFlaky),
		"After":                     retry.After(driver.ErrBadConn, time.Second),
		"rejected":                  retry.ErrRejected,
		"two answers":               errors.Join(state("40001"), state("40003")),
		"two systems":               errors.Join(&mysql.MySQLError{Number: 1213}, &sqlite.Error{Extended: 10}),
		"attempts of its own":       &retry.Error{Reason: retry.ReasonMaxAttempts, Errs: []error{driver.ErrBadConn, state("40001")}},
		"a nil error of the driver": (*mysql.MySQLError)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			for _, tt := range []struct {
				policy   retry.Policy
				reason   retry.Reason
				attempts int
			}{
				{retry.Policy{}, retry.ReasonPermanent, 1},
				{retry.Policy{NonIdempotent: true}, retry.ReasonPermanent, 1},
				{retry.Policy{Classify: retrysql.Repeatable}, retry.ReasonMaxAttempts, 3},
				{retry.Policy{Classify: retrysql.Repeatable, NonIdempotent: true}, retry.ReasonNotIdempotent, 1},
				{retry.Policy{Classify: always(retry.TimedOut)}, retry.ReasonMaxAttempts, 3},
				{retry.Policy{Classify: always(retry.TimedOut), NonIdempotent: true}, retry.ReasonNotIdempotent, 1},
				{retry.Policy{Classify: always(retry.Throttled), NonIdempotent: true}, retry.ReasonNotIdempotent, 1},
				{retry.Policy{Classify: always(retry.Unprocessed), NonIdempotent: true}, retry.ReasonMaxAttempts, 3}, // who says so knows
			} {
				h := retrytest.New(t, tt.policy)
				v, err := (&fake{commit: says}).tx(t.Context(), h.Policy, nil)
				e := end(t, err)
				commit, ok := e.Last().(*retrysql.CommitError)
				if v != 0 || !ok || !same(commit.Err, says) {
					t.Errorf("%d, %v, want 0 and a CommitError of %v", v, err, says)
				}
				if e.Reason != tt.reason || h.Summary().Reason != tt.reason || h.Summary().Err != err {
					t.Errorf("ended by %v, with hooks told %v, want %v", e.Reason, h.Summary().Reason, tt.reason)
				}
				h.AssertAttempts(tt.attempts)
			}
		})
	}
}

func same(a, b error) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b)
}

func always(c retry.Class) retry.Classifier { return func(error) retry.Class { return c } }

func TestCommitErrorIsPermanentInOuterRuns(t *testing.T) {
	runs := 0
	err := retry.Run(t.Context(), retry.Policy{}, func(ctx context.Context) error {
		runs++
		_, err := (&fake{commit: driver.ErrBadConn}).tx(ctx, retry.Policy{}, nil)
		return err
	})
	if e := end(t, err); e.Reason != retry.ReasonPermanent || runs != 1 {
		t.Errorf("%d runs, then %v", runs, err)
	}
	if errors.Is(err, driver.ErrBadConn) {
		t.Errorf("%v wraps what proves nothing", err)
	}
}

// An outer run that must not repeat may repeat a transaction that did not happen, if it
// vouches that it makes no other call.
func TestOuterRunRepeatsWhatWasRolledBack(t *testing.T) {
	poll := func() error {
		_, err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)},
			retry.Until(func(context.Context) (int, error) { return 1, nil }, func(int) bool { return false }))
		return err
	}
	for _, err := range []error{&mysql.MySQLError{Number: 1213}, retry.ErrRejected, poll(), errFlaky, state("53300")} {
		for name, tt := range map[string]struct {
			classify retry.Classifier
			want     int
		}{
			"nobody": {nil, 1}, "Classify": {retrysql.Classify, 1}, "the default": {retry.DefaultClassifier, 3},
			"both": {retry.Classifiers(retrysql.Classify, retry.DefaultClassifier), 3},
		} {
			runs := 0
			_ = retry.Run(t.Context(), retry.Policy{NonIdempotent: true, Backoff: retry.Constant(0), Classify: tt.classify}, func(ctx context.Context) error {
				runs++
				_, err := (&fake{}).tx(ctx, retry.Policy{MaxAttempts: 1}, err)
				if c := retry.DefaultClassifier(err); c != retry.Unprocessed {
					t.Errorf("%v is %v, want unprocessed", err, c)
				}
				return err
			})
			if runs != tt.want {
				t.Errorf("%v: %d runs if %s vouches, want %d", err, runs, name, tt.want)
			}
		}
	}
}

func TestPolicyClassifyGoesFirst(t *testing.T) {
	for _, tt := range []struct {
		says, told retry.Class
		attempts   int
	}{
		{retry.Permanent, retry.Permanent, 1},
		{retry.Throttled, retry.Throttled, 3},
		{retry.Transient, retry.Unprocessed, 3},
		{retry.Unprocessed, retry.Unprocessed, 3},
		{retry.Unknown, retry.Unprocessed, 3},
	} {
		h := retrytest.New(t, retry.Policy{Classify: func(err error) retry.Class {
			if _, ok := errors.AsType[*mysql.MySQLError](err); !ok {
				t.Errorf("asked about %v", err)
			}
			return tt.says
		}})
		_, _ = (&fake{}).tx(t.Context(), h.Policy, fmt.Errorf("debit: %w", &mysql.MySQLError{Number: 1213}))
		h.AssertAttempts(tt.attempts)
		if got := h.Attempts()[0].Class; got != tt.told {
			t.Errorf("called %v the error is %v, want %v", tt.says, got, tt.told)
		}
	}
}

// What a new session mends is permanent to a call, and repeated in a transaction: all codes that
// a table calls so, by the types that have one here. clienttest/oracle has real errors.
func TestTransactionIsANewSession(t *testing.T) {
	errs := map[string]func(oracle.Row) error{
		"sqlite":   func(r oracle.Row) error { n, _, _ := r.Numbers(); return &sqlite.Error{Extended: int(n)} },
		"mysql":    func(r oracle.Row) error { n, _, _ := r.Numbers(); return &mysql.MySQLError{Number: uint16(n)} },
		"sqlstate": func(r oracle.Row) error { return state(r.Code) },
	}
	tables, err := oracle.Tables()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, table := range tables {
		of := errs[table.Vendor()]
		for _, row := range table.Rows {
			facts, err := row.Facts()
			if err != nil {
				t.Fatal(err)
			}
			if of == nil || !facts.Session || row.Pattern() {
				continue
			}
			seen[table.Vendor()]++
			fails := fmt.Errorf("debit: %w", of(row))
			if class := retry.Classifiers(retrysql.Classify, retry.DefaultClassifier)(fails); class != retry.Permanent && facts.Class == "permanent" {
				t.Errorf("%s %s is %v to a call, want permanent", table.Name, row.Code, class)
			}
			h := retrytest.New(t, retry.Policy{NonIdempotent: true, MaxAttempts: 2})
			_, _ = (&fake{}).tx(t.Context(), h.Policy, fails)
			h.AssertAttempts(2)
			if got := h.Attempts()[0].Class; got != retry.Unprocessed {
				t.Errorf("%s %s is %v in a transaction, want unprocessed", table.Name, row.Code, got)
			}
		}
	}
	if seen["sqlite"] < 3 || seen["mysql"] < 4 || seen["sqlstate"] < 1 {
		t.Errorf("only %v: these tables show little", seen)
	}
}

// A mark, the policy's classifier and another error that is permanent go before that, and what no
// table says stays as it is. The outer one of two transactions is repeated.
func TestNewSessionMendsNothingElse(t *testing.T) {
	over := &sqlite.Error{Extended: 516}
	for name, tt := range map[string]struct {
		begin, fn error
		classify  retry.Classifier
		attempts  int
	}{
		"BEGIN":              {begin: over, attempts: 2},
		"wrapped":            {fn: errors.Join(errFlaky, over), attempts: 2},
		"a violated key":     {fn: errors.Join(state("23505"), over), attempts: 1},
		"a key, MySQL's":     {fn: errors.Join(&mysql.MySQLError{Number: 1062}, over), attempts: 1},
		"marked":             {fn: retry.Stop(over), attempts: 1},
		"answered":           {fn: retry.Answer(over), attempts: 1},
		"the policy's":       {fn: over, classify: always(retry.Permanent), attempts: 1},
		"no such host":       {begin: &net.DNSError{Err: "no such host", IsNotFound: true}, attempts: 1},
		"of an inner run":    {fn: &retry.Error{Reason: retry.ReasonPermanent, Attempts: 1, Errs: []error{state("08506")}}, attempts: 2},
		"a marked inner run": {fn: &retry.Error{Reason: retry.ReasonPermanent, Attempts: 1, Errs: []error{state("08506")}, Marked: true}, attempts: 1},
	} {
		h := retrytest.New(t, retry.Policy{NonIdempotent: true, MaxAttempts: 2, Classify: tt.classify})
		_, _ = (&fake{begin: tt.begin}).tx(t.Context(), h.Policy, tt.fn)
		if got := len(h.Attempts()); got != tt.attempts {
			t.Errorf("%s: %d attempts, want %d", name, got, tt.attempts)
		}
	}
	h := retrytest.New(t, retry.Policy{MaxAttempts: 2})
	outer := 0
	_, err := retrysql.TxOf(t.Context(), h.Policy, (&fake{}).Begin, func(ctx context.Context, _ *fake) (int, error) {
		outer++
		return (&fake{}).tx(ctx, retry.Policy{}, over)
	})
	if outer != 2 || err == nil {
		t.Errorf("%d outer transactions, %v, want 2", outer, err)
	}
}

// A classifier that does not know an error leaves it to Classify.
func TestClassifyKnowsWhatThePolicysDoesNot(t *testing.T) {
	for number, want := range map[uint16]retry.Reason{1062: retry.ReasonPermanent, 1213: retry.ReasonMaxAttempts} {
		h := retrytest.New(t, retry.Policy{Classify: always(retry.Unknown)})
		_, _ = (&fake{}).tx(t.Context(), h.Policy, &mysql.MySQLError{Number: number})
		h.AssertReason(want)
	}
}

func TestThrottledTransactionWaitsAsThrottled(t *testing.T) {
	h := retrytest.New(t, retry.Policy{
		NonIdempotent: true, Backoff: retry.Constant(time.Second), ThrottleBackoff: retry.Constant(time.Minute),
	})
	_, _ = (&fake{begin: &mysql.MySQLError{Number: 1040}}).tx(t.Context(), h.Policy, nil)
	h.AssertDelays(time.Minute, time.Minute)
}

func TestOrderOfCalls(t *testing.T) {
	for _, tt := range []struct {
		name string
		fake fake
		fn   error
		want string
	}{
		{"success", fake{}, nil, "begin fn commit"},
		{"BEGIN fails", fake{begin: errFlaky}, nil, "begin begin"},
		{"fn fails", fake{}, errFlaky, "begin fn rollback begin fn rollback"},
		{"COMMIT fails", fake{commit: state("40001")}, nil, "begin fn commit rollback begin fn commit rollback"},
		{"COMMIT is lost", fake{commit: errFlaky}, nil, "begin fn commit rollback"},
		{"ROLLBACK fails too", fake{rollback: errors.New("rollback")}, errFlaky, "begin fn rollback begin fn rollback"},
		{"fn ended it and failed", fake{rollback: sql.ErrTxDone}, errFlaky, "begin fn rollback"},
		{"ROLLBACK finds the connection lost", fake{rollback: driver.ErrBadConn}, errFlaky, "begin fn rollback begin fn rollback"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := retrytest.New(t, retry.Policy{MaxAttempts: 2})
			v, err := tt.fake.tx(t.Context(), h.Policy, tt.fn)
			if got := strings.Join(tt.fake.calls, " "); got != tt.want {
				t.Errorf("calls: %s\nwant:  %s", got, tt.want)
			}
			if ok := err == nil; ok != (v == 7) {
				t.Errorf("%d, %v", v, err)
			}
			if tt.fn != nil && !errors.Is(err, tt.fn) {
				t.Errorf("%v lacks %v", err, tt.fn)
			}
			if tt.fake.rollback == sql.ErrTxDone && (!errors.Is(err, sql.ErrTxDone) || end(t, err).Reason != retry.ReasonPermanent) {
				t.Errorf("%v, want sql.ErrTxDone, permanent", err)
			}
		})
	}
}

// A connection whose server has refused ROLLBACK lives, and its next BEGIN would commit
// what it has open.
func TestRefusedRollbackEndsTheRun(t *testing.T) {
	refused := fmt.Errorf("rollback: %w", &mysql.MySQLError{Number: 1317})
	for _, tt := range []struct {
		name string
		fake fake
		fn   error
		want string
	}{
		{"fn fails", fake{rollback: refused}, errFlaky, "begin fn rollback"},
		{"COMMIT is answered", fake{commit: &mysql.MySQLError{Number: 1205}, rollback: refused}, nil, "begin fn commit rollback"},
		{"fn fails for good", fake{rollback: refused}, retry.Stop(errFlaky), "begin fn rollback"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := retrytest.New(t, retry.Policy{NonIdempotent: true, Classify: always(retry.Transient)})
			v, err := tt.fake.tx(t.Context(), h.Policy, tt.fn)
			if got := strings.Join(tt.fake.calls, " "); got != tt.want {
				t.Errorf("calls: %s, want %s", got, tt.want)
			}
			h.AssertReason(retry.ReasonPermanent)
			if v != 0 || !errors.Is(err, refused) || tt.fn != nil && !errors.Is(err, errFlaky) {
				t.Errorf("%d, %v, want 0 and both errors", v, err)
			}
		})
	}
}

// Nobody knows more of a COMMIT that is lost if ROLLBACK is refused as well.
func TestRefusedRollbackAfterALostCommit(t *testing.T) {
	h := retrytest.New(t, retry.Policy{Classify: retrysql.Repeatable})
	f := fake{commit: driver.ErrBadConn, rollback: &mysql.MySQLError{Number: 1317}}
	_, err := f.tx(t.Context(), h.Policy, nil)
	if _, ok := end(t, err).Last().(*retrysql.CommitError); !ok {
		t.Errorf("%v, want a CommitError", err)
	}
	h.AssertAttempts(3)
}

// database/sql rolls back as soon as the context ends, so COMMIT finds a transaction
// that is done.
func TestTimeoutBetweenFnAndCommitIsRepeated(t *testing.T) {
	h := retrytest.New(t, retry.Policy{AttemptTimeout: time.Second, NonIdempotent: true})
	var commits int
	tx := hooked{
		commit: func(context.Context) error {
			if commits++; commits == 1 {
				h.Clock.Advance(time.Second)
				return sql.ErrTxDone
			}
			return nil
		},
		rollback: func(context.Context) error { return sql.ErrTxDone },
	}
	v, err := retrysql.TxOf(t.Context(), h.Policy, func(context.Context) (hooked, error) { return tx, nil },
		func(context.Context, hooked) (int, error) { return 7, nil })
	if v != 7 || err != nil {
		t.Fatalf("%d, %v, want 7", v, err)
	}
	h.AssertAttempts(2)
	if first := h.Attempts()[0].Err; !errors.Is(first, retry.ErrAttemptTimeout) || !errors.Is(first, sql.ErrTxDone) {
		t.Errorf("%v, want the timeout and sql.ErrTxDone", first)
	}
}

// Nothing has happened in a read-only transaction, so that its COMMIT may be lost.
func TestLostCommitOfAReadOnlyTransactionIsRepeated(t *testing.T) {
	for _, opts := range []*sql.TxOptions{nil, {}, {ReadOnly: true}} {
		commits := 0
		db := openIdle(t, idle{commit: func() error {
			if commits++; commits == 1 {
				return fmt.Errorf("COMMIT: %w", driver.ErrBadConn)
			}
			return nil
		}})
		p := retry.Policy{Backoff: retry.Constant(0), NonIdempotent: true}
		v, err := retrysql.Tx(t.Context(), p, db, opts, func(context.Context, *sql.Tx) (int, error) { return 7, nil })
		if readOnly := opts != nil && opts.ReadOnly; (v == 7) != readOnly || (err == nil) != readOnly {
			t.Errorf("%+v: %d, %v, want 7 only if read-only", opts, v, err)
		}
		if _, ok := errors.AsType[*retrysql.CommitError](err); err != nil && !ok {
			t.Errorf("%+v: %v, want a CommitError", opts, err)
		}
	}
}

// A fn that has ended a read-only transaction itself is wrong all the same.
func TestFnEndsAReadOnlyTransaction(t *testing.T) {
	runs := 0
	_, err := retrysql.Tx(t.Context(), retry.Policy{}, openIdle(t, idle{}), &sql.TxOptions{ReadOnly: true}, func(_ context.Context, tx *sql.Tx) (int, error) {
		runs++
		return 7, tx.Commit()
	})
	if e := end(t, err); runs != 1 || e.Reason != retry.ReasonPermanent || !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("%v after %d runs, want sql.ErrTxDone after 1", err, runs)
	}
}

// What is closed stays closed.
func TestClosedPoolEndsTheRun(t *testing.T) {
	closed := openIdle(t, idle{})
	closed.Close()
	gone, err := openIdle(t, idle{}).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for name, db := range map[string]interface {
		BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
	}{"sql.DB": closed, "sql.Conn": gone} {
		h := retrytest.New(t, retry.Policy{})
		_, err := retrysql.Tx(t.Context(), h.Policy, db, nil, func(context.Context, *sql.Tx) (int, error) { return 7, nil })
		if e := end(t, err); e.Reason != retry.ReasonPermanent || e.Attempts != 1 {
			t.Errorf("%s: %v after %d attempts, want a permanent error after 1", name, err, e.Attempts)
		}
	}
	h := retrytest.New(t, retry.Policy{})
	f := fake{begin: fmt.Errorf("acquire: %w", errors.New("closed pool"))} // puddle.ErrClosedPool, which pgxpool returns
	_, err = f.tx(t.Context(), h.Policy, nil)
	if e := end(t, err); e.Reason != retry.ReasonPermanent || e.Attempts != 1 {
		t.Errorf("pgxpool: %v after %d attempts, want a permanent error after 1", err, e.Attempts)
	}
}

type key struct{}

// hooked is a transaction of funcs.
type hooked struct {
	commit, rollback func(context.Context) error
}

func (h hooked) Commit(ctx context.Context) error   { return h.commit(ctx) }
func (h hooked) Rollback(ctx context.Context) error { return h.rollback(ctx) }

func TestRollbackOutlivesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		tx := hooked{rollback: func(ctx context.Context) error {
			if ctx.Value(key{}) != "value" || ctx.Err() != nil {
				t.Errorf("rolled back in a context with %v and %v", ctx.Value(key{}), ctx.Err())
			}
			start := time.Now()
			<-ctx.Done()
			if took := time.Since(start); took != 5*time.Second {
				t.Errorf("a rollback that hangs ends after %v, want 5s", took)
			}
			return ctx.Err()
		}}
		_, err := retrysql.TxOf(ctx, retry.Policy{}, func(context.Context) (hooked, error) { return tx, nil },
			func(context.Context, hooked) (int, error) {
				cancel()
				return 7, errFlaky
			})
		if e := end(t, err); e.Reason != retry.ReasonCanceled || !errors.Is(err, errFlaky) {
			t.Errorf("ended with %v", err)
		}
	})
}

// A driver may go on in the background until its context ends.
func TestContextOfRollbackEndsWithIt(t *testing.T) {
	var last context.Context
	tx := hooked{rollback: func(ctx context.Context) error {
		last = ctx
		return nil
	}}
	_, _ = retrysql.TxOf(t.Context(), retry.Policy{MaxAttempts: 1}, func(context.Context) (hooked, error) { return tx, nil },
		func(context.Context, hooked) (int, error) { return 0, errFlaky })
	if last.Err() != context.Canceled {
		t.Errorf("after Rollback its context has the error %v, want context.Canceled", last.Err())
	}
}

func TestNoCommitAfterTheCallersEnd(t *testing.T) {
	cause := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	var f fake
	v, err := retrysql.TxOf(ctx, retry.Policy{}, f.Begin, func(context.Context, *fake) (int, error) {
		cancel(cause)
		return 7, nil
	})
	if got := strings.Join(f.calls, " "); got != "begin rollback" {
		t.Errorf("calls: %s", got)
	}
	if e := end(t, err); v != 0 || e.Reason != retry.ReasonCanceled || !errors.Is(e.Last(), cause) {
		t.Errorf("%d, %v, want 0 and %v", v, err, cause)
	}
}

// database/sql rolls back when the context ends. fn may see no more than that, which
// by itself would be permanent.
func TestAttemptTimeoutIsTheCause(t *testing.T) {
	for name, sees := range map[string]error{"nothing": nil, "ErrTxDone": sql.ErrTxDone, "the timeout": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			h := retrytest.New(t, retry.Policy{AttemptTimeout: time.Second, NonIdempotent: true})
			f := fake{rollback: sql.ErrTxDone}
			v, err := retrysql.TxOf(t.Context(), h.Policy, f.Begin, func(ctx context.Context, _ *fake) (int, error) {
				if retry.AttemptNumber(ctx) < 3 {
					_ = h.Clock.Sleep(ctx, time.Minute)
					return 7, sees
				}
				return 7, nil
			})
			if v != 7 || err != nil {
				t.Fatalf("%d, %v, want 7", v, err)
			}
			h.AssertAttempts(3)
			first := h.Attempts()[0].Err
			if first == nil || !errors.Is(first, retry.ErrAttemptTimeout) || sees != nil && !errors.Is(first, sees) {
				t.Errorf("%v, want the timeout and %v", first, sees)
			}
		})
	}
}

func TestPanicAndGoexitRollBack(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		for _, at := range []string{"fn", "commit"} {
			t.Run(name+" in "+at, func(t *testing.T) {
				var rolledBack, attempts, ends int
				p := retry.Policy{Budget: new(budgettest.Places), Hooks: retry.Hooks{
					AttemptDone: func(context.Context, retry.Attempt) { attempts++ },
					Done:        func(context.Context, retry.Summary) { ends++ },
				}}
				tx := hooked{
					commit:   func(context.Context) error { leave(); return nil },
					rollback: func(context.Context) error { rolledBack++; return nil },
				}
				var recovered any
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { recovered = recover() }()
					_, _ = retrysql.TxOf(t.Context(), p, func(context.Context) (hooked, error) { return tx, nil },
						func(context.Context, hooked) (int, error) {
							if at == "fn" {
								leave()
							}
							return 7, nil
						})
					t.Error("it returned")
				})
				wg.Wait()
				if want := name == "panic"; (recovered == "boom") != want || rolledBack != 1 || attempts != 1 || ends != 1 {
					t.Errorf("recovered %v; %d rollbacks, %d attempts and %d ends, want 1 of each", recovered, rolledBack, attempts, ends)
				}
			})
		}
	}
}

func TestNestedTransactionMakesOneAttempt(t *testing.T) {
	var outer, inner int
	p := retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(0), NonIdempotent: true}
	var f fake
	v, err := retrysql.TxOf(t.Context(), p, f.Begin, func(ctx context.Context, _ *fake) (int, error) {
		outer++
		var savepoint fake
		return retrysql.TxOf(ctx, p, savepoint.Begin, func(context.Context, *fake) (int, error) {
			if inner++; inner < 3 {
				return 0, state("40001")
			}
			return 7, nil
		})
	})
	if v != 7 || err != nil || outer != 3 || inner != 3 {
		t.Errorf("%d, %v after %d outer and %d inner runs, want 7 after 3 and 3", v, err, outer, inner)
	}
}

// A nested COMMIT whose answer was lost may have happened, though the outer
// transaction was rolled back.
func TestNestedCommitErrorIsNotRepeated(t *testing.T) {
	for _, tt := range []struct {
		policy retry.Policy
		reason retry.Reason
		runs   int
	}{
		{retry.Policy{}, retry.ReasonPermanent, 1},
		{retry.Policy{Classify: retrysql.Repeatable}, retry.ReasonMaxAttempts, 3},
		{retry.Policy{Classify: retrysql.Repeatable, NonIdempotent: true}, retry.ReasonNotIdempotent, 1},
	} {
		runs := 0
		var f fake
		tt.policy.Backoff = retry.Constant(0)
		_, err := retrysql.TxOf(t.Context(), tt.policy, f.Begin, func(ctx context.Context, _ *fake) (int, error) {
			runs++
			return (&fake{commit: driver.ErrBadConn}).tx(ctx, tt.policy, nil)
		})
		if e := end(t, err); e.Reason != tt.reason || runs != tt.runs {
			t.Errorf("%v after %d runs, want %v after %d", e.Reason, runs, tt.reason, tt.runs)
		}
	}
}

// One attempt of hooks is one transaction, with fn's own error.
func TestHooksSeeTransactions(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "time" || a.Key == "duration" || a.Key == "elapsed" || a.Key == "waited" {
			return slog.Attr{}
		}
		return a
	}}))
	h := retrytest.New(t, retry.Policy{Name: "transfer", NonIdempotent: true, Hooks: retry.SlogHooks(logger)})
	f := fake{commit: state("40001")}
	_, _ = f.tx(t.Context(), h.Policy, nil)
	const attempt = "level=DEBUG msg=attempt name=transfer attempt=%d class=unprocessed error=\"SQLSTATE 40001\"\n"
	want := fmt.Sprintf(attempt+attempt+attempt, 1, 2, 3) + "level=WARN msg=\"gave up\" name=transfer reason=max_attempts attempts=3 error="
	if got := log.String(); !strings.HasPrefix(got, want) {
		t.Errorf("logged\n%swant\n%s…", got, want)
	}
	if n := strings.Count(strings.Join(f.calls, " "), "begin"); n != len(h.Attempts()) {
		t.Errorf("%d transactions were %d attempts", n, len(h.Attempts()))
	}
}

// Hooks, and so telemetry, get the error as it is.
func TestHooksGetTheErrorItself(t *testing.T) {
	for _, err := range []error{fmt.Errorf("x: %w", errFlaky), &mysql.MySQLError{Number: 1213}, syscall.ECONNRESET, sqlite3.Error{Code: 5}, retry.ErrAttemptTimeout} {
		h := retrytest.New(t, retry.Policy{})
		_, _ = (&fake{}).tx(t.Context(), h.Policy, err)
		if got := h.Attempts()[0].Err; got != err {
			t.Errorf("AttemptDone got %#v, want %#v", got, err)
		}
	}
}

func TestHooksSeeASuccess(t *testing.T) {
	h := retrytest.New(t, retry.Policy{})
	if v, err := (&fake{}).tx(t.Context(), h.Policy, nil); v != 7 || err != nil {
		t.Errorf("%d, %v, want 7", v, err)
	}
	h.AssertAttempts(1)
	h.AssertReason(retry.ReasonNone)
}

func TestHooksGetTheUsersPolicy(t *testing.T) {
	var got string
	p := retry.Policy{
		Name: "x", MaxAttempts: 2, AttemptTimeout: time.Second, NonIdempotent: true, Backoff: retry.Constant(0),
		Classify: retry.DefaultClassifier, Budget: &budget.Token{}, Clock: clockx.NewVirtual(time.Unix(0, 0)),
	}
	p.Hooks.Start = func(_ context.Context, p retry.Policy) context.Context { got = fmt.Sprintf("%#v", p); return nil }
	ctx := context.Context(t.Context())
	for range 2 { // the second time inside of a transaction
		_, _ = retrysql.TxOf(ctx, p, begun, func(inner context.Context, _ noTx) (int, error) {
			if want := fmt.Sprintf("%#v", p); got != want {
				t.Errorf("Hooks.Start got\n%s\nwant\n%s", got, want)
			}
			got, ctx = "", inner
			return 7, nil
		})
	}
}

// witness is a budget that grants all and remembers what it was asked.
type witness struct{ told []string }

func (w *witness) Withdraw(taken retry.Withdrawal) bool {
	w.told = append(w.told, fmt.Sprintf("%v %d", taken.Class, taken.Retry))
	return taken.Retry < 2
}
func (w *witness) End(o retry.Outcome) {
	w.told = append(w.told, fmt.Sprintf("end %v %v", o.Retried, o.OK))
}

func TestBudgetLimitsTransactions(t *testing.T) {
	var w witness
	_, err := (&fake{}).tx(t.Context(), retry.Policy{MaxAttempts: 9, Backoff: retry.Constant(0), Budget: &w}, state("08006"))
	if e := end(t, err); e.Reason != retry.ReasonBudget || e.Attempts != 2 {
		t.Errorf("ended with %v, want budget after 2 attempts", err)
	}
	if want := []string{"unprocessed 1", "unprocessed 2", "end unprocessed false"}; !slices.Equal(w.told, want) {
		t.Errorf("the budget was told %q, want %q", w.told, want)
	}
}

// What the server has rolled back is no extra load for it. A database that is away has
// said nothing.
func TestConflictsCostTheBudgetNothing(t *testing.T) {
	spent := &budget.Token{Capacity: -1}
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, tt := range map[string]struct {
		fake fake
		fn   error
		want int
	}{
		"serialization failure":         {fake{}, state("40001"), 5},
		"deadlock":                      {fake{}, fmt.Errorf("debit: %w", state("40P01")), 5},
		"deadlock of MySQL":             {fake{}, &mysql.MySQLError{Number: 1213}, 5},
		"busy SQLite":                   {fake{begin: &sqlite.Error{Extended: 5}}, nil, 5},
		"conflict at COMMIT":            {fake{commit: state("40001")}, nil, 5},
		"refused connection":            {fake{begin: refused}, nil, 1},
		"lost connection":               {fake{}, state("08006"), 1},
		"starting":                      {fake{begin: state("57P03")}, nil, 1},
		"too many connections":          {fake{begin: state("53300")}, nil, 1},
		"conflict, and lost connection": {fake{}, errors.Join(state("40001"), state("08006")), 1},
		"conflict, too late":            {fake{}, errors.Join(context.DeadlineExceeded, state("40001")), 1},
	} {
		_, err := tt.fake.tx(t.Context(), retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0), Budget: spent}, tt.fn)
		if e := end(t, err); e.Attempts != tt.want {
			t.Errorf("%s: %d attempts without a budget, want %d", name, e.Attempts, tt.want)
		}
	}
}

// The policy of docs/sql.md does not storm a database that refuses connections.
func TestDatabaseThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begins := 0
		var mu sync.Mutex
		begin := func(context.Context) (noTx, error) {
			mu.Lock()
			defer mu.Unlock()
			begins++
			return noTx{}, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		p := retry.Policy{
			MaxAttempts: retry.Unlimited, MaxElapsed: 5 * time.Second,
			Backoff: retry.Exponential{Base: 2 * time.Millisecond, Max: 100 * time.Millisecond},
			Budget:  &retry.EarnedBudget{},
		}
		var calls sync.WaitGroup
		for range 600 {
			calls.Go(func() { _, _ = retrysql.TxOf(t.Context(), p, begin, noop) })
			time.Sleep(time.Second / 60)
		}
		calls.Wait()
		if begins != 604 {
			t.Errorf("%d connections were asked for, want 600 and 4 for retries", begins)
		}
	})
}

// A policy is not written to: a second run is like the first.
func TestOnePolicyServesManyTransactions(t *testing.T) {
	var mu sync.Mutex
	ends := 0
	p := retry.Policy{NonIdempotent: true, Classify: retrysql.Repeatable, Backoff: retry.Constant(0), Hooks: retry.Hooks{
		Done: func(_ context.Context, s retry.Summary) {
			mu.Lock()
			defer mu.Unlock()
			if ends++; s.Reason != retry.ReasonNotIdempotent {
				t.Errorf("ended by %v", s.Reason)
			}
		},
	}}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { _, _ = (&fake{commit: errFlaky}).tx(t.Context(), p, nil) })
	}
	wg.Wait()
	if ends != 50 || !p.NonIdempotent {
		t.Errorf("%d ends, want 50", ends)
	}
}

func TestNilPanics(t *testing.T) {
	fn := func(context.Context, *sql.Tx) (int, error) { return 0, nil }
	var f fake
	var none context.Context
	for want, call := range map[string]func(){
		"retrysql: nil db":   func() { _, _ = retrysql.Tx(t.Context(), retry.Policy{}, nil, nil, fn) },
		"retrysql: nil db ":  func() { _, _ = retrysql.Tx(t.Context(), retry.Policy{}, (*sql.DB)(nil), nil, fn) },
		"retrysql: nil db  ": func() { _, _ = retrysql.Tx(t.Context(), retry.Policy{}, (*sql.Conn)(nil), nil, fn) },
		"retrysql: nil fn":   func() { _, _ = retrysql.Tx[int](t.Context(), retry.Policy{}, new(sql.DB), nil, nil) },
		"retrysql: nil fn ":  func() { _, _ = retrysql.TxOf[*fake, int](t.Context(), retry.Policy{}, f.Begin, nil) },
		"retrysql: nil begin": func() {
			_, _ = retrysql.TxOf(t.Context(), retry.Policy{}, nil, func(context.Context, *fake) (int, error) { return 0, nil })
		},
		"retry: nil context": func() { _, _ = f.tx(none, retry.Policy{}, nil) },
	} {
		func() {
			defer func() {
				if got := recover(); got != strings.TrimSpace(want) {
					t.Errorf("panics with %v, want %s", got, want)
				}
			}()
			call()
		}()
	}
	if len(f.calls) != 0 {
		t.Errorf("called %v", f.calls)
	}
}

func TestTxOnDatabaseSQL(t *testing.T) {
	var options []driver.TxOptions
	commits := 0
	db := openIdle(t, idle{
		begun: func(o driver.TxOptions) { options = append(options, o) },
		commit: func() error {
			if commits++; commits%2 == 1 {
				return state("40001")
			}
			return nil
		},
	})
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, beginner := range []interface {
		BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
	}{db, conn} {
		options = nil
		p := retry.Policy{Backoff: retry.Constant(0), NonIdempotent: true}
		v, err := retrysql.Tx(t.Context(), p, beginner, &sql.TxOptions{ReadOnly: true}, func(ctx context.Context, tx *sql.Tx) (int, error) {
			_, err := tx.ExecContext(ctx, "UPDATE")
			return 7, err
		})
		if v != 7 || err != nil || len(options) != 2 || !options[1].ReadOnly {
			t.Errorf("%d, %v with %v, want 7 after two read-only transactions", v, err, options)
		}
	}
	conn.Close()
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections in use", n)
	}
}

// Whether fn committed or rolled back cannot be told, so it is not called again.
func TestFnEndsTheTransaction(t *testing.T) {
	for name, finish := range map[string]func(*sql.Tx) error{"COMMIT": (*sql.Tx).Commit, "ROLLBACK": (*sql.Tx).Rollback} {
		for _, fails := range []error{nil, errFlaky} {
			t.Run(fmt.Sprint(name, " then ", fails), func(t *testing.T) {
				runs := 0
				v, err := retrysql.Tx(t.Context(), retry.Policy{Classify: always(retry.Transient)}, openIdle(t, idle{}), nil, func(_ context.Context, tx *sql.Tx) (int, error) {
					runs++
					return 7, errors.Join(finish(tx), fails)
				})
				if e := end(t, err); v != 0 || runs != 1 || e.Reason != retry.ReasonPermanent || !errors.Is(err, sql.ErrTxDone) || fails != nil && !errors.Is(err, fails) {
					t.Errorf("%d, %v after %d runs, want sql.ErrTxDone after 1", v, err, runs)
				}
			})
		}
	}
}

// A run that ends as its caller does has that reason, whatever COMMIT said.
func TestCancelInCommit(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tx := hooked{
		commit:   func(context.Context) error { cancel(); return driver.ErrBadConn },
		rollback: func(context.Context) error { return nil },
	}
	_, err := retrysql.TxOf(ctx, retry.Policy{NonIdempotent: true, Classify: retrysql.Repeatable},
		func(context.Context) (hooked, error) { return tx, nil }, func(context.Context, hooked) (int, error) { return 7, nil })
	if _, ok := errors.AsType[*retrysql.CommitError](err); !ok || end(t, err).Reason != retry.ReasonCanceled {
		t.Errorf("%v, want a CommitError, canceled", err)
	}
}
