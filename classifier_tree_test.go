package retry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/pgconn"
	"github.com/goretry/retry/internal/race"
)

// multi is go-multierror of hashicorp: all but the first error are behind the
// methods of a chain.
func multi(errs ...error) error { return top{errs} }

type (
	top   struct{ errs []error }
	chain []error
)

func (top) Error() string            { return "several errors occurred" }
func (e top) Unwrap() error          { return chain(e.errs) }
func (e chain) Error() string        { return e[0].Error() }
func (e chain) As(target any) bool   { return errors.As(e[0], target) }
func (e chain) Is(target error) bool { return errors.Is(e[0], target) }
func (e chain) Unwrap() error {
	if len(e) == 1 {
		return nil
	}
	return e[1:]
}

// aggregate is that of k8s.io/apimachinery: an Is method, and nothing else.
type aggregate []error

func (aggregate) Error() string { return "aggregate" }
func (e aggregate) Is(target error) bool {
	return slices.ContainsFunc(e, func(err error) bool { return errors.Is(err, target) })
}

// anyOf has an As method over all of its errors.
type anyOf [2]error

func (anyOf) Error() string { return "any of" }
func (e anyOf) As(target any) bool {
	return slices.ContainsFunc(e[:], func(err error) bool { return errors.As(err, target) })
}

// dialer says that it is a failed dial, whose cause is the dialer.
type dialer struct{}

func (dialer) Error() string { return "dialer" }
func (e dialer) As(target any) bool {
	p, ok := target.(**net.OpError)
	if ok {
		*p = &net.OpError{Op: "dial", Err: e}
	}
	return ok
}

// failedRun says that it is a run, whose error is the failedRun.
type failedRun struct{}

func (failedRun) Error() string { return "failed run" }
func (e failedRun) As(target any) bool {
	p, ok := target.(**retry.Error)
	if ok {
		*p = &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{e}}
	}
	return ok
}

// liar finds everything and sets nothing.
type liar struct{}

func (liar) Error() string { return "liar" }
func (liar) As(any) bool   { return true }

// rejects is a liar that says it is ErrRejected.
type rejects struct{ err error }

func (rejects) Error() string        { return "rejects" }
func (e rejects) Unwrap() error      { return e.err }
func (rejects) As(any) bool          { return true }
func (rejects) Is(target error) bool { return target == retry.ErrRejected }

func TestTreesThatOnlyAsAndIsWalk(t *testing.T) {
	const (
		unknown   = retry.Unknown
		permanent = retry.Permanent
		transient = retry.Transient
		timedOut  = retry.TimedOut
		throttled = retry.Throttled
	)
	for i, tt := range []struct {
		err  error
		want retry.Class
	}{
		{multi(errDown, errDown), unknown},
		{multi(errDown, status(404)), permanent},
		{multi(errDown, fmt.Errorf("x: %w", status(404))), permanent},
		{multi(errDown, syscall.ECONNRESET, fs.ErrNotExist), transient}, // the first that is known
		{multi(errDown, fs.ErrNotExist, syscall.ECONNRESET), permanent},
		{multi(errDown, x509.HostnameError{}), permanent},
		{multi(errDown, &json.SyntaxError{}), permanent},
		{multi(errDown, status(429)), throttled},
		{multi(errDown, busy{429}), throttled},
		{multi(errDown, hinted(time.Second)), transient},
		{multi(errDown, timeout(true)), timedOut},
		{multi(errDown, timeout(false)), unknown},
		{multi(errDown, code("SlowDown")), throttled},
		{multi(errDown, sqlState("40001")), transient},
		{multi(errDown, context.DeadlineExceeded), timedOut},
		{multi(errDown, net.ErrClosed), transient},
		{multi(syscall.ECONNREFUSED, syscall.ECONNREFUSED), transient}, // proves nothing
		{multi(dial(syscall.ECONNREFUSED)), transient},
		{multi(errDown, safe(true)), transient},
		{multi(errDown, errors.Join(errDown, status(404))), permanent},
		{multi(errDown, multi(errDown, status(404))), permanent},
		{multi(errDown, &retry.Error{Reason: retry.ReasonPermanent}), permanent},
		{fmt.Errorf("x: %w", multi(errDown, status(404))), permanent},
		{errors.Join(syscall.ECONNREFUSED, multi(errDown, errDown)), transient},
		{errors.Join(status(404)), permanent},

		{conceals{new(tally), []error{passes{new(tally), errDown}, fs.ErrNotExist}}, permanent},
		{aggregate{errDown}, unknown},
		{aggregate{errDown, fs.ErrNotExist}, permanent},
		{aggregate{errDown, status(404)}, permanent},
		{aggregate{errDown, fmt.Errorf("x: %w", code("Throttling"))}, throttled},
		{aggregate{errDown, syscall.ECONNREFUSED}, transient},
		{aggregate{errDown, syscall.EMFILE}, throttled},
		{aggregate{errDown, context.DeadlineExceeded}, timedOut},
		{aggregate{errDown, os.ErrDeadlineExceeded}, timedOut},
		{aggregate{errDown, net.ErrClosed}, transient},
		{aggregate{errDown, io.ErrUnexpectedEOF}, transient},

		{anyOf{errDown, status(404)}, permanent},
		{anyOf{errDown, awsStatus(404)}, permanent},
		{anyOf{errDown, retryable(false)}, permanent},
		{anyOf{errDown, retryable2(false)}, permanent},
		{anyOf{errDown, code("Throttling")}, throttled},
		{anyOf{errDown, sqlState("42P01")}, permanent},
		{anyOf{errDown, safe(true)}, transient},
		{anyOf{errDown, timeout(true)}, timedOut},
		{anyOf{errDown, hinted(1)}, transient},
		{anyOf{errDown, syscall.EACCES}, permanent},
		{anyOf{errDown, &net.DNSError{IsNotFound: true}}, permanent},
		{anyOf{errDown, dial(errDown)}, transient},
		{anyOf{errDown, &url.Error{Op: "parse"}}, permanent},
		{anyOf{errDown, &retry.Error{Reason: retry.ReasonNotIdempotent}}, permanent},
		{anyOf{errDown, &retry.Error{Reason: retry.ReasonRefused}}, permanent},
		{anyOf{errDown, errors.Join(errDown, fs.ErrNotExist)}, permanent},
		{anyOf{errDown, asFS{}}, unknown}, // found by none of the questions
		{errors.Join(wrapped(4, errDown, func(err error) error { return passes{new(tally), err} }), anyOf{errDown, status(404)}), permanent},
		{dialer{}, unknown}, // types of net are known by their names only
		{liar{}, unknown},
	} {
		if got := retry.DefaultClassifier(tt.err); got != tt.want {
			t.Errorf("%d: %T(%v) is %v, want %v", i, tt.err, tt.err, got, tt.want)
		}
		judgedAsEver(t, tt.err)
	}
}

func TestMarksBehindAs(t *testing.T) {
	stop, after := retry.Stop(errDown), retry.After(errDown, time.Second)
	inner := &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{fmt.Errorf("x: %w", stop)}}
	for name, tt := range map[string]struct {
		err  error
		want retry.Class
		hint time.Duration
	}{
		"Stop":                               {multi(errDown, stop), retry.Permanent, 0},
		"Stop, wrapped":                      {fmt.Errorf("x: %w", multi(errDown, fmt.Errorf("y: %w", stop))), retry.Permanent, 0},
		"After":                              {multi(errDown, after), retry.Throttled, time.Second},
		"joined":                             {errors.Join(errDown, multi(errDown, after)), retry.Throttled, time.Second},
		"for an inner run":                   {multi(errDown, inner), retry.Transient, 0},
		"for an inner run, and one for us":   {multi(inner, stop), retry.Permanent, 0}, // each has an As method of its own
		"of which only one As method tells":  {anyOf{inner, stop}, retry.Transient, 0},
		"a hint":                             {multi(errDown, hinted(time.Minute)), retry.Transient, time.Minute},
		"an inner run's hint":                {multi(errDown, &retry.Error{Errs: []error{errDown, waits{errDown}}}), retry.Transient, time.Second},
		"an inner run's older hint":          {multi(errDown, &retry.Error{Errs: []error{hinted(time.Hour), errDown}}), retry.Transient, 0},
		"a negative hint":                    {multi(errDown, hinted(-1)), retry.Transient, 0},
		"an inner run's hint, deeper":        {multi(errDown, &retry.Error{Errs: []error{fmt.Errorf("x: %w", hinted(1))}}), retry.Transient, 1},
		"an inner run's hint, around more":   {multi(errDown, &retry.Error{Errs: []error{waitsFor{1, errDown}}}), retry.Transient, 1},
		"nothing":                            {liar{}, retry.Transient, 0},
		"a hint in a url.Error":              {&url.Error{Err: hinted(1)}, retry.Transient, 1},
		"a hint in a net.OpError":            {read(hinted(1)), retry.Transient, 1},
		"a hint in a SyscallError":           {os.NewSyscallError("x", hinted(1)), retry.Transient, 1},
		"a hint in a PathError":              {&fs.PathError{Err: hinted(1)}, retry.Transient, 1},
		"a hint around a nil pointer":        {waitsFor{1, (*url.Error)(nil)}, retry.Transient, 1},
		"Stop in a PathError":                {&fs.PathError{Err: stop}, retry.Permanent, 0},
		"Stop, by its type alone":            {knows{new(tally), stop}, retry.Permanent, 0},
		"a hint, by its type alone":          {knows{new(tally), hinted(1)}, retry.Transient, 1},
		"a hint, by its type alone, in As":   {&skips{new(tally), errDown, knows{new(tally), hinted(1)}}, retry.Transient, 1},
		"an inner run's, of which it is one": {failedRun{}, retry.Transient, 0},
		"an inner run's, by its type alone":  {knows{new(tally), &retry.Error{Errs: []error{waitsFor{1, errDown}}}}, retry.Transient, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := retry.Policy{}.Judge(tt.err)
			c, hint := v.Class, v.Hint
			if c != tt.want || hint != tt.hint {
				t.Errorf("Judge = %v, %v, want %v, %v", c, hint, tt.want, tt.hint)
			}
		})
	}
}

func TestRejectedBehindIs(t *testing.T) {
	permanent := retry.Policy{Classify: func(error) retry.Class { return retry.Permanent }}
	for _, tt := range []struct {
		err  error
		want retry.Class
	}{
		{multi(errDown, retry.ErrRejected), retry.Transient},
		{aggregate{errDown, retry.ErrRejected}, retry.Transient},
		{multi(errDown, &retry.Error{Errs: []error{retry.ErrRejected}}), retry.Permanent}, // an inner run's
		{multi(errDown, errDown), retry.Permanent},
		{rejects{nil}, retry.Transient},
		{rejects{(*url.Error)(nil)}, retry.Transient},
	} {
		if c := permanent.Judge(tt.err).Class; c != tt.want {
			t.Errorf("Judge(%v) = %v, want %v", tt.err, c, tt.want)
		}
	}
}

// A server that says when to come back says so to one who polls, too.
func TestHintBesideRejectedIsAFloor(t *testing.T) {
	for _, err := range []error{
		errors.Join(retry.ErrRejected, hinted(time.Minute)),
		errors.Join(hinted(time.Minute), retry.ErrRejected),
		fmt.Errorf("%w: %w", hinted(time.Minute), retry.ErrRejected),
		waitsFor{time.Minute, retry.ErrRejected},
		multi(retry.ErrRejected, hinted(time.Minute)),
	} {
		p, v := virtual()
		p.MaxAttempts = 2
		_ = retry.Run(t.Context(), p, func(context.Context) error { return err })
		wantElapsed(t, v, time.Minute+time.Second)
	}
}

// waitsFor wraps an error and asks for a wait.
type waitsFor struct {
	d   time.Duration
	err error
}

func (w waitsFor) Error() string             { return w.err.Error() }
func (w waitsFor) Unwrap() error             { return w.err }
func (w waitsFor) RetryAfter() time.Duration { return w.d }

// pays runs op, which must not run twice, and checks that it ran once.
func pays(t *testing.T, pay func(context.Context) error) {
	t.Helper()
	p, _ := virtual()
	p.NonIdempotent, p.Classify = true, retry.DefaultClassifier
	calls := 0
	err := retry.Run(t.Context(), p, func(ctx context.Context) error { calls++; return pay(ctx) })
	if calls != 1 {
		t.Errorf("paid %d times", calls)
	}
	wantReason(t, err, retry.ReasonNotIdempotent)
}

func TestNonIdempotentRepeatsNoInnerRunThatMayHaveRun(t *testing.T) {
	refused := dial(syscall.ECONNREFUSED)
	inner, _ := virtual()
	for name, errs := range map[string][]error{
		"at first":             {errDown, refused, refused},
		"in between":           {refused, errDown, refused},
		"at last":              {refused, refused, errDown},
		"busy, no time given":  {status(429), refused, refused},
		"in one that was lost": {refused, errDown, refused, refused, refused, refused, refused, refused, refused},
	} {
		t.Run(name, func(t *testing.T) {
			pays(t, func(ctx context.Context) error {
				inner.MaxAttempts = len(errs)
				attempt := 0
				return retry.Run(ctx, inner, func(context.Context) error { attempt++; return errs[attempt-1] })
			})
		})
	}
	t.Run("but one that never ran", func(t *testing.T) {
		p, _ := virtual()
		p.NonIdempotent, p.MaxAttempts, p.Classify = true, 2, retry.DefaultClassifier
		inner.MaxAttempts = 2
		calls := 0
		err := retry.Run(t.Context(), p, func(ctx context.Context) error {
			return retry.Run(ctx, inner, func(context.Context) error { calls++; return refused })
		})
		if wantReason(t, err, retry.ReasonMaxAttempts); calls != 4 {
			t.Errorf("%d calls, want 2 × 2", calls)
		}
	})
}

func TestNonIdempotentRepeatsNoPostThatWasRedirected(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close() // nobody listens there now
	payments := 0
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payments++
		http.Redirect(w, r, gone.URL+"/receipt", http.StatusSeeOther)
	}))
	defer shop.Close()
	pays(t, func(context.Context) error {
		resp, err := http.Post(shop.URL, "", nil)
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
	if payments != 1 {
		t.Errorf("the shop saw %d payments", payments)
	}
}

// A client's error may come after a redirect: what its cause proves is true of the last request only.
func TestNonIdempotentRepeatsNoRequestWhoseTransportUndidTheLast(t *testing.T) {
	pays(t, func(context.Context) error { return &url.Error{Op: "Post", Err: retry.Undone(errDown)} })
}

// pgx's pool.Exec without arguments reads the answer on a connection that its own
// failure has closed.
func TestNonIdempotentRepeatsNoStatementWhoseAnswerWasLost(t *testing.T) {
	pays(t, func(context.Context) error { return fmt.Errorf("exec: %w", pgconn.ConnClosed()) })
}

func TestNonIdempotentRepeatsNo503ThatSaysWhen(t *testing.T) {
	pays(t, func(context.Context) error { return busy{503} })
	pays(t, func(context.Context) error { return hinted(time.Second) })
	pays(t, func(context.Context) error { return errors.Join(status(429), busy{503}) })
}

// Nil pointers that became errors on their way through an interface.
func TestNilPointersAreUnknown(t *testing.T) {
	for _, err := range []error{
		(*net.OpError)(nil), (*net.DNSError)(nil), (*url.Error)(nil), (*fs.PathError)(nil), (*os.SyscallError)(nil),
		(*os.LinkError)(nil), (*net.AddrError)(nil), (*net.ParseError)(nil), (*tls.CertificateVerificationError)(nil),
		(*json.SyntaxError)(nil), (*json.UnmarshalTypeError)(nil), (*json.MarshalerError)(nil), (*strconv.NumError)(nil),
		(*http.MaxBytesError)(nil), (*x509.HostnameError)(nil), (*tls.RecordHeaderError)(nil),
		(*busy)(nil), (*chain)(nil), (*operation)(nil),
	} {
		for _, tree := range []error{
			err, fmt.Errorf("x: %w", err), errors.Join(err, errDown), &url.Error{Op: "Get", Err: err}, waitsFor{0, err},
			responded{0, err},
		} {
			if c := retry.DefaultClassifier(tree); c != retry.Unknown {
				t.Errorf("%T in %T is %v, want unknown", err, tree, c)
			}
			if v := (retry.Policy{}).Judge(tree); v.Class != retry.Transient || v.Hint != 0 {
				t.Errorf("Judge(%T in %T) = %v, %v, want transient", err, tree, v.Class, v.Hint)
			}
		}
		e := &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{err}}
		if e.Error() == "" || e.Timeout() || retry.DefaultClassifier(e) != retry.Transient {
			t.Errorf("an *Error around %T: %v", err, e)
		}
		if got := retry.DefaultClassifier(responded{404, err}); got != retry.Permanent {
			t.Errorf("a 404 around %T is %v, want permanent", err, got)
		}
		if got := retry.Stop(err).(interface{ ErrorType() string }).ErrorType(); got == "" {
			t.Errorf("a mark around %T has no type", err)
		}
	}
}

// broken is an error with a defect.
type broken struct{}

func (broken) Error() string   { return "broken" }
func (broken) StatusCode() int { panic("a defect") }

// A panic in an error's method is somebody's defect, as one in op is: it must be
// seen, and the run is closed all the same.
func TestPanicInAnErrorsMethodPassesThrough(t *testing.T) {
	p, _ := virtual()
	seen := record(&p)
	budget := new(countingBudget)
	p.Budget = budget
	func() {
		defer func() {
			if got := recover(); got != "a defect" {
				t.Errorf("recovered %v, want the method's own panic", got)
			}
		}()
		_ = retry.Run(t.Context(), p, func(context.Context) error { return broken{} })
	}()
	if want := "start attempt(1) attemptDone(1) done(panic)"; seen.String() != want {
		t.Errorf("hooks saw %s, want %s", seen, want)
	}
	if budget.ended != 1 {
		t.Errorf("the budget was told %d times that the run ended, want once", budget.ended)
	}
}

// bare wraps an error, as a library's own type does.
type bare struct{ err error }

func (*bare) Error() string   { return "bare" }
func (b *bare) Unwrap() error { return b.err }

// unknownAuthority holds an x509 error that its method As shows to those who know it.
type unknownAuthority struct{}

func (unknownAuthority) Error() string { return "unknown authority" }

func (unknownAuthority) As(target any) bool {
	_, ok := target.(*x509.UnknownAuthorityError)
	return ok
}

// What is recognized by the name of its type is found where Unwrap shows it, and where
// a method As takes any error.
func TestTypesThatAreKnownByNameMustBeShown(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want retry.Class
	}{
		{"bare", x509.UnknownAuthorityError{}, retry.Permanent},
		{"wrapped", fmt.Errorf("get: %w", x509.UnknownAuthorityError{}), retry.Permanent},
		{"joined", errors.Join(errDown, x509.UnknownAuthorityError{}), retry.Permanent},
		{"behind As, for any error", chain{x509.UnknownAuthorityError{}}, retry.Permanent},
		{"behind As, by its type alone", unknownAuthority{}, retry.Unknown},
	} {
		if got := retry.DefaultClassifier(tt.err); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// unwrapped is an error that counts how often it is unwrapped.
type unwrapped struct {
	err   error
	calls *int
}

func (*unwrapped) Error() string   { return "unwrapped" }
func (u *unwrapped) Unwrap() error { *u.calls++; return u.err }

// Each link of a chain is looked at a fixed number of times.
func TestJudgingALongChainIsLinear(t *testing.T) {
	for name, tt := range map[string]struct {
		judge func(error)
		most  int
	}{
		"DefaultClassifier": {func(err error) { retry.DefaultClassifier(err) }, 1},
		"Judge":             {func(err error) { retry.Policy{}.Judge(err) }, 2},
		"Loop with a budget": {func(err error) {
			loop := retry.Policy{Budget: &countingBudget{}}.Start(epoch)
			loop.Next(epoch, err)
		}, 3},
	} {
		for _, links := range []int{10, 1_000, 100_000} {
			calls := 0
			err := errDown
			for range links {
				err = &unwrapped{err, &calls}
			}
			if tt.judge(err); calls > tt.most*links {
				t.Errorf("%s unwraps a chain of %d errors %d times, want at most %d for each", name, links, calls, tt.most)
			}
		}
	}
}

// To judge a chain takes no more than 50 times what errors.Is takes to walk it.
func TestLongChainRatio(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector slows the two down unequally")
	}
	if !longTests {
		t.Skip("a comparison of times: RETRY_LONG=1 runs it")
	}
	other := errors.New("other")
	wrap := func(err error) error { return fmt.Errorf("%w", err) }
	bare := func(err error) error { return &bare{err} }
	for name, wraps := range map[string][]func(error) error{
		"fmt.Errorf": {wrap}, "a type": {bare}, "both": {bare, wrap},
	} {
		t.Run(name, func(t *testing.T) {
			err := errDown
			for i := range 10_000 {
				err = wraps[i%len(wraps)](err)
			}
			var got float64
			for range 50 { // a machine that is busy can spoil a measurement, and never makes one better
				var is, judge []time.Duration
				for range 11 {
					start := time.Now()
					_ = errors.Is(err, other)
					is = append(is, time.Since(start))
					start = time.Now()
					_ = retry.DefaultClassifier(err)
					judge = append(judge, time.Since(start))
				}
				if got = float64(slices.Min(judge)) / float64(slices.Min(is)); got <= 50 {
					return
				}
			}
			t.Errorf("DefaultClassifier takes %.1f times what errors.Is takes, want at most 50", got)
		})
	}
}

// tally makes errors whose methods count their calls.
type tally struct{ calls int }

type (
	// unwraps wraps an error.
	unwraps struct {
		*tally
		err error
	}
	// passes wraps an error, and its methods As and Is search it.
	passes struct {
		*tally
		err error
	}
	// passesAsIs is passes, as a pointer and with a method for timeouts.
	passesAsIs struct{ passes }
	// joins is passes for several errors.
	joins struct {
		*tally
		errs []error
	}
	// searches and matches are passes with one of the two methods.
	searches struct {
		*tally
		err error
	}
	matches struct {
		*tally
		err error
	}
	// alone is passes with a method Unwrap that returns a list of one.
	alone struct{ passes }
	// conceals has methods As and Is only.
	conceals struct {
		*tally
		errs []error
	}
	// skips unwraps an error, and shows the one below that.
	skips struct {
		*tally
		err, below error
	}
	// rest is go-multierror's chain, whose methods show the first error and hide the others.
	rest struct {
		*tally
		errs []error
	}
	// again makes new errors each time that it is asked, and shows what it unwraps.
	again struct {
		*tally
		levels int
	}
	// ownIs wraps an error and claims to be another one.
	ownIs struct {
		*tally
		err, is error
	}
	// shows has a method As for those who ask for any error, and a method Is that searches it.
	shows struct {
		*tally
		err error
	}
	// knows has a method As for single types: it shows no error to those who ask for any.
	knows struct {
		*tally
		err error
	}
)

func (unwraps) Error() string    { return "unwraps" }
func (e *unwraps) Unwrap() error { e.calls++; return e.err }

func (passes) Error() string          { return "passes" }
func (e passes) Unwrap() error        { e.calls++; return e.err }
func (e passes) As(target any) bool   { e.calls++; return errors.As(e.err, target) }
func (e passes) Is(target error) bool { e.calls++; return errors.Is(e.err, target) }

func (e *passesAsIs) Timeout() bool { e.calls++; return false }

func (searches) Error() string        { return "searches" }
func (e searches) Unwrap() error      { e.calls++; return e.err }
func (e searches) As(target any) bool { e.calls++; return errors.As(e.err, target) }

func (matches) Error() string          { return "matches" }
func (e matches) Unwrap() error        { e.calls++; return e.err }
func (e matches) Is(target error) bool { e.calls++; return errors.Is(e.err, target) }

func (e alone) Unwrap() []error { e.calls++; return []error{e.err} }

func (joins) Error() string          { return "joins" }
func (e joins) Unwrap() []error      { e.calls++; return e.errs }
func (e joins) As(target any) bool   { e.calls++; return errors.As(errors.Join(e.errs...), target) }
func (e joins) Is(target error) bool { e.calls++; return errors.Is(errors.Join(e.errs...), target) }

func (conceals) Error() string { return "conceals" }
func (e conceals) As(target any) bool {
	e.calls++
	return slices.ContainsFunc(e.errs, func(err error) bool { return errors.As(err, target) })
}
func (e conceals) Is(target error) bool { e.calls++; return aggregate(e.errs).Is(target) }

func (*skips) Error() string          { return "skips" }
func (e *skips) Unwrap() error        { e.calls++; return e.err }
func (e *skips) As(target any) bool   { e.calls++; return errors.As(e.below, target) }
func (e *skips) Is(target error) bool { e.calls++; return errors.Is(e.below, target) }

func (rest) Error() string          { return "rest" }
func (e rest) As(target any) bool   { e.calls++; return errors.As(e.errs[0], target) }
func (e rest) Is(target error) bool { e.calls++; return errors.Is(e.errs[0], target) }
func (e rest) Unwrap() error {
	if e.calls++; len(e.errs) == 1 {
		return nil
	}
	return rest{e.tally, e.errs[1:]}
}

func (again) Error() string        { return "again" }
func (e again) As(target any) bool { e.calls++; return errors.As(e.Unwrap(), target) }
func (e again) Unwrap() error {
	if e.calls++; e.levels == 0 {
		return errDown
	}
	return again{e.tally, e.levels - 1}
}

func (*ownIs) Error() string          { return "own" }
func (e *ownIs) Unwrap() error        { e.calls++; return e.err }
func (e *ownIs) Is(target error) bool { e.calls++; return target == e.is }

func (shows) Error() string { return "shows" }
func (e shows) As(target any) bool {
	e.calls++
	found, ok := target.(*error)
	if ok {
		*found = e.err
	}
	return ok
}
func (e shows) Is(target error) bool { e.calls++; return errors.Is(e.err, target) }

func (knows) Error() string { return "knows" }
func (e knows) As(target any) bool {
	e.calls++
	_, any := target.(*error)
	return !any && errors.As(e.err, target)
}

// wrapped wraps leaf n times.
func wrapped(n int, leaf error, wrap func(error) error) error {
	for range n {
		leaf = wrap(leaf)
	}
	return leaf
}

// judges are the ways in which a tree is judged.
var judges = map[string]func(error){
	"DefaultClassifier": func(err error) { retry.DefaultClassifier(err) },
	"Judge":             func(err error) { retry.Policy{}.Judge(err) },
	"Final":             func(err error) { retry.Final(err) },
	"Timeout":           func(err error) { (&retry.Error{Errs: []error{err}}).Timeout() },
	"ErrorType":         func(err error) { retry.Stop(err).(interface{ ErrorType() string }).ErrorType() },
}

// To judge an error costs as much as its tree has errors, whatever their methods do and
// however often the tree holds one of them.
func TestJudgingIsLinear(t *testing.T) {
	size := 2_000
	if longTests {
		size = 10_000
	}
	refused := dial(syscall.ECONNREFUSED)
	run := func(errs ...error) error {
		return &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: len(errs), Errs: errs}
	}
	chain := func(n int, leaf error, wrap func(*tally, error) error) func(*tally) error {
		return func(c *tally) error { return wrapped(n, leaf, func(err error) error { return wrap(c, err) }) }
	}
	for name, tree := range map[string]func(c *tally) error{
		"chain":                             chain(size, errDown, func(c *tally, err error) error { return &unwraps{c, err} }),
		"both":                              chain(size, errDown, func(c *tally, err error) error { return passes{c, err} }),
		"both, pointers":                    chain(size, errDown, func(c *tally, err error) error { return &passesAsIs{passes{c, err}} }),
		"both, alternating":                 chain(size/2, errDown, func(c *tally, err error) error { return fmt.Errorf("x: %w", passes{c, err}) }),
		"both, joined":                      chain(size/2, errDown, func(c *tally, err error) error { return joins{c, []error{errDown, err}} }),
		"both, around a refused connection": chain(size, refused, func(c *tally, err error) error { return passes{c, err} }),
		"both, joined alone":                chain(size, errDown, func(c *tally, err error) error { return alone{passes{c, err}} }),
		"behind As, with the errors below": func(c *tally) error {
			all := []error{errDown, &unwraps{c, errDown}}
			for range size {
				all = append(all, &skips{c, all[len(all)-1], all[len(all)-2]})
			}
			return all[len(all)-1]
		},
		"made while it is asked": func(c *tally) error { return again{c, 500} },
		"hidden":                 chain(size/10, errDown, func(c *tally, err error) error { return conceals{c, []error{err}} }),
		"hidden, around both": func(c *tally) error {
			return conceals{c, []error{wrapped(size, errDown, func(err error) error { return passes{c, err} })}}
		},
		"hidden, around some with As": func(c *tally) error {
			return conceals{c, []error{wrapped(40, errDown, func(err error) error { return searches{c, err} })}}
		},
		"hidden, around some with Is": func(c *tally) error {
			return conceals{c, []error{wrapped(40, errDown, func(err error) error { return matches{c, err} })}}
		},
		"hidden, around runs of attempts": func(c *tally) error {
			return shows{c, wrapped(8, errDown, func(err error) error {
				var errs []error
				for range 8 {
					errs = append(errs, &unwraps{c, err})
				}
				return run(errs...)
			})}
		},
		"hidden, beside others with the same": func(c *tally) error {
			shared := wrapped(size/10, errDown, func(err error) error { return &unwraps{c, err} })
			var all []error
			for range 100 {
				all = append(all, &conceals{c, []error{shared}})
			}
			return errors.Join(all...)
		},
		"known to As, in marks": chain(size/2, errDown, func(c *tally, err error) error { return retry.Undone(knows{c, err}) }),
		"known to As, in runs":  chain(size/2, errDown, func(c *tally, err error) error { return run(knows{c, err}) }),
		"go-multierror": func(c *tally) error {
			errs := make([]error, 500)
			for i := range errs {
				errs[i] = &unwraps{c, errDown}
			}
			return rest{c, errs}
		},
		"go-multierror, nested":               chain(400, errDown, func(c *tally, err error) error { return rest{c, []error{err, errDown}} }),
		"joined":                              chain(size/2, errDown, func(c *tally, err error) error { return errors.Join(&unwraps{c, errDown}, err) }),
		"joined with itself":                  chain(size, errDown, func(c *tally, err error) error { return &unwraps{c, errors.Join(err, err)} }),
		"joined with itself, in other errors": chain(size/3, errDown, func(c *tally, err error) error { return errors.Join(&unwraps{c, err}, &unwraps{c, err}) }),
		"a slice with itself":                 chain(size, errDown, func(c *tally, err error) error { return several{err, &unwraps{c, err}} }),
		"runs":                                chain(size/2, refused, func(c *tally, err error) error { return run(&unwraps{c, err}) }),
		"runs of equal attempts":              chain(size/2, refused, func(c *tally, err error) error { return run(err, err, &unwraps{c, err}, err) }),
		"runs of attempts":                    chain(size/3, refused, func(c *tally, err error) error { return run(&unwraps{c, err}, &unwraps{c, err}) }),
		"marks":                               chain(size/2, errDown, func(c *tally, err error) error { return retry.Undone(&unwraps{c, err}) }),
		"marks, joined": func(c *tally) error {
			all := []error{errDown, errDown}
			for range size / 3 {
				all = append(all, retry.After(&unwraps{c, errors.Join(all[len(all)-1], all[len(all)-2])}, time.Second))
			}
			return all[len(all)-1]
		},
		"of net/url": chain(size/2, errDown, func(c *tally, err error) error { return &url.Error{Op: "Get", Err: &unwraps{c, err}} }),
		"of net":     chain(size/2, errDown, func(c *tally, err error) error { return &net.OpError{Op: "read", Err: &unwraps{c, err}} }),
		"of os": func(c *tally) error {
			return wrapped(size/3, errDown, func(err error) error {
				return os.NewSyscallError("x", &fs.PathError{Err: &unwraps{c, err}})
			})
		},
		"claims": chain(size, errDown, func(c *tally, err error) error { return &ownIs{c, err, errDown} }),
	} {
		t.Run(name, func(t *testing.T) {
			for how, judge := range judges {
				c := new(tally)
				err := tree(c)
				c.calls = 0
				if judge(err); c.calls > 64*size {
					t.Errorf("%s calls %d methods in a tree of %d errors", how, c.calls, size)
				}
			}
		})
	}
}

// manyTrees is how many random trees are judged: few under the race detector, for there is one goroutine.
func manyTrees() int {
	switch {
	case race.Enabled:
		return 1_000
	case longTests:
		return 10_000
	}
	return 3_000
}

// Any tree ends, and costs little.
func TestJudgingRandomTreesIsLinear(t *testing.T) {
	const size = 40
	rnd := rand.New(rand.NewPCG(1, 2))
	for range manyTrees() {
		c := new(tally)
		all := []error{errDown, dial(syscall.ECONNREFUSED), fs.ErrNotExist, status(404), retry.ErrRejected, asked503{}}
		for range size {
			// Mostly the latest errors, so that trees are deep, and hold errors at several places.
			pick := func() error {
				if rnd.IntN(4) == 0 {
					return all[rnd.IntN(len(all))]
				}
				return all[max(0, len(all)-1-rnd.IntN(3))]
			}
			a, b := pick(), pick()
			all = append(all, []func() error{
				func() error { return &unwraps{c, a} },
				func() error { return passes{c, a} },
				func() error { return &passesAsIs{passes{c, a}} },
				func() error { return joins{c, []error{a, b}} },
				func() error { return conceals{c, []error{a}} },
				func() error { return &skips{c, a, b} },
				func() error { return rest{c, []error{a, b}} },
				func() error { return &ownIs{c, a, fs.ErrExist} },
				func() error { return errors.Join(a, b) },
				func() error { return fmt.Errorf("%w, %w", a, b) },
				func() error { return several{a, b} },
				func() error { return &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{a, b}} },
				func() error { return retry.Undone(a) },
				func() error { return retry.After(a, time.Second) },
				func() error { return &url.Error{Op: "Get", Err: a} },
				func() error { return &net.OpError{Op: "dial", Err: a} },
			}[rnd.IntN(16)]())
		}
		err := all[len(all)-1]
		for how, judge := range judges {
			c.calls = 0
			if judge(err); c.calls > 500*size {
				t.Fatalf("%s calls %d methods in a tree of %d errors", how, c.calls, size)
			}
		}
	}
}

// What a large tree says is what it would say if it were small.
func TestALargeTreeIsJudgedAsASmallOne(t *testing.T) {
	undone := retry.Undone(dial(syscall.ECONNREFUSED))
	few, many := []error{undone}, slices.Repeat([]error{undone}, 100)
	same := func(tree error) {
		t.Helper()
		small, large := errors.Join(append(few, tree, tree)...), errors.Join(append(many, tree, tree)...)
		if got, want := retry.DefaultClassifier(large), retry.DefaultClassifier(small); got != want {
			t.Fatalf("%v is %v in a large tree, and %v in a small one", tree, got, want)
		}
		got, want := retry.Policy{}.Judge(large), retry.Policy{}.Judge(small)
		if got.Err, want.Err = nil, nil; got != want {
			t.Fatalf("Judge(%v) = %+v in a large tree, and %+v in a small one", tree, got, want)
		}
		if got, want := retry.Final(large), retry.Final(small); got != want {
			t.Fatalf("Final(%v) = %v in a large tree, and %v in a small one", tree, got, want)
		}
	}
	late := &timesOut{errDown} // says that it is late only if no error decides
	same(errors.Join(dial(late), &url.Error{Op: "Get", Err: late}))
	rnd := rand.New(rand.NewPCG(1, 2))
	for range manyTrees() {
		c := new(tally)
		all := []error{errDown, dial(syscall.ECONNREFUSED), fs.ErrNotExist, timeout(true), hinted(time.Second), asked503{}, retry.ErrRejected}
		for range 12 {
			a, b := all[rnd.IntN(len(all))], all[rnd.IntN(len(all))]
			all = append(all, []func() error{
				func() error { return &unwraps{c, a} },
				func() error { return waitsFor{time.Minute, a} },
				func() error { return &timesOut{a} },
				func() error { return errors.Join(a) },
				func() error { return errors.Join(a, b) },
				func() error { return several{b, a} },
				func() error { return &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{a, b}} },
				func() error { return retry.Undone(a) },
				func() error { return &url.Error{Op: "Get", Err: a} },
				func() error { return &net.OpError{Op: "dial", Err: a} },
				func() error { return &fs.PathError{Err: a} },
			}[rnd.IntN(11)]())
		}
		same(all[len(all)-1])
	}
}

// timesOut wraps an error and is a timeout.
type timesOut struct{ err error }

func (timesOut) Error() string    { return "times out" }
func (e *timesOut) Unwrap() error { return e.err }
func (*timesOut) Timeout() bool   { return true }

// An error that holds itself adds nothing to what else it holds.
func TestAnErrorThatHoldsItselfIsJudged(t *testing.T) {
	itself := several{nil, status(404)}
	itself[0] = itself
	if got := retry.DefaultClassifier(itself); got != retry.Permanent {
		t.Errorf("DefaultClassifier = %v, want permanent", got)
	}
	if got := (retry.Policy{}).Judge(itself).Class; got != retry.Permanent {
		t.Errorf("Judge = %v, want permanent", got)
	}
}

// errors.Is goes through runs in runs once, if their attempts returned the same errors.
func TestRunsInRunsAreSearchedOnce(t *testing.T) {
	c := new(tally)
	err := wrapped(1000, errDown, func(err error) error {
		var errs []error
		for range 8 {
			errs = append(errs, err)
		}
		return &unwraps{c, &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 8, Errs: errs}}
	})
	if errors.Is(err, fs.ErrExist) || !errors.Is(err, errDown) || c.calls != 2000 {
		t.Errorf("errors.Is goes through %d of 1000 runs, twice", c.calls)
	}
}

type asked503 struct{}

func (asked503) Error() string             { return "503" }
func (asked503) StatusCode() int           { return 503 }
func (asked503) RetryAfter() time.Duration { return time.Second }

// single shows its error by a method As that knows single types, and not the type error.
type single struct{ inner error }

func (single) Error() string { return "single" }
func (s single) As(target any) bool {
	v, inner := reflect.ValueOf(target).Elem(), reflect.ValueOf(s.inner)
	if v.Type() == reflect.TypeFor[error]() || !inner.Type().AssignableTo(v.Type()) {
		return false
	}
	v.Set(inner)
	return true
}

type (
	getsStatus int
	labeled    string
)

func (getsStatus) Error() string              { return "status" }
func (s getsStatus) GetStatusCode() int       { return int(s) }
func (labeled) Error() string                 { return "labeled" }
func (l labeled) HasErrorLabel(s string) bool { return s == string(l) }
func (labeled) HasErrorCode(int) bool         { return false }

// An error that has one of the methods that count is known also where only such an As shows it.
// What it proves of itself does not count there.
func TestMethodsOfAnErrorThatOnlyAsShows(t *testing.T) {
	for _, err := range []error{
		safe(true), code("ThrottlingException"), sqlState("40001"), retryable(true), retryable2(false), status(429), awsStatus(404),
		getsStatus(429), labeled("SystemOverloadedError"), hinted(1), timeout(true),
	} {
		want := retry.DefaultClassifier(err)
		if want == retry.Unprocessed {
			want = retry.Transient
		}
		if got := retry.DefaultClassifier(single{err}); got != want || want == retry.Unknown {
			t.Errorf("%T behind As is %v, want %v", err, got, want)
		}
	}
}

// runError is the name that a package of an application gives the error of a run.
type runError = retry.Error

// orderError embeds one, and so has all its methods.
type orderError struct {
	*runError
	Order string
}

func TestAnErrorThatEmbedsARunIsJudged(t *testing.T) {
	run := gaveUp(t, retry.Run(t.Context(), retry.Policy{MaxAttempts: 1}, func(context.Context) error { return errDown }))
	for _, err := range []error{orderError{run, "7"}, &orderError{run, "7"}, fmt.Errorf("order: %w", orderError{run, "7"})} {
		if got := retry.DefaultClassifier(err); got != retry.DefaultClassifier(errDown) {
			t.Errorf("%T is %v", err, got)
		}
		_ = retry.Policy{}.Judge(err)
		_ = retry.Final(err)
		outer := gaveUp(t, retry.Run(t.Context(), retry.Policy{MaxAttempts: 1}, func(context.Context) error { return err }))
		if !strings.Contains(outer.Error(), "down") {
			t.Errorf("the text of a run with %T is %q", err, outer)
		}
	}
}

// wheel wraps an error that can be set later: itself, say.
type wheel struct{ err error }

func (*wheel) Error() string   { return "wheel" }
func (w *wheel) Unwrap() error { return w.err }

func TestAChainThatEndsInItselfIsJudged(t *testing.T) {
	one, two := &wheel{}, &wheel{&wheel{}}
	one.err = one
	two.err.(*wheel).err = two
	for _, err := range []error{one, two, fmt.Errorf("%w", two), retry.Undone(one)} {
		if got := retry.DefaultClassifier(err); got != retry.DefaultClassifier(errors.New("wheel")) {
			t.Errorf("DefaultClassifier = %v, want what it says of an error that says nothing", got)
		}
		e := gaveUp(t, retry.Run(t.Context(), retry.Policy{MaxAttempts: 1}, func(context.Context) error { return err }))
		if _ = retry.Final(err); e.Timeout() || e.Error() == "" {
			t.Error("the error is no error")
		}
	}
}
