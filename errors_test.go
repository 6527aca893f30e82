package retry_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

func TestErrorText(t *testing.T) {
	refused := errors.New("connection refused")
	shutdown := errors.New("shutting down")
	unsafe := &retry.Error{Name: "post", Reason: retry.ReasonNotIdempotent, Attempts: 1, Errs: []error{io.EOF}}
	for _, tt := range []struct {
		err  *retry.Error
		want string
	}{
		{
			&retry.Error{Name: "fetch-user", Reason: retry.ReasonMaxAttempts, Attempts: 4, Elapsed: 3200 * time.Millisecond, Errs: []error{errDown, refused}},
			"fetch-user: gave up after 4 attempts in 3.2s (max_attempts): connection refused",
		},
		{
			&retry.Error{Reason: retry.ReasonPermanent, Attempts: 1, Elapsed: 1234567, Errs: []error{refused}},
			"retry: gave up after 1 attempt in 1.23ms (permanent): connection refused",
		},
		{
			&retry.Error{Name: "fetch-user", Reason: retry.ReasonCanceled, Cause: context.Canceled},
			"fetch-user: not attempted (canceled): context canceled",
		},
		{
			&retry.Error{Reason: retry.ReasonCanceled, Attempts: 2, Elapsed: 90*time.Minute + 3*time.Second + 1, Errs: []error{refused}, Cause: shutdown},
			"retry: gave up after 2 attempts in 1h30m3s (canceled): connection refused; cause: shutting down",
		},
		{
			&retry.Error{Reason: retry.ReasonDeadline, Attempts: 2, Elapsed: 999, Errs: []error{refused}, Cause: context.DeadlineExceeded},
			"retry: gave up after 2 attempts in 999ns (deadline): connection refused",
		},
		{
			&retry.Error{Reason: retry.ReasonCanceled, Attempts: 1, Errs: []error{fmt.Errorf("get: %w", shutdown)}, Cause: shutdown},
			"retry: gave up after 1 attempt in 0s (canceled): get: shutting down",
		},
		{&retry.Error{Name: "batch", Reason: retry.ReasonPermanent, Attempts: 1, Errs: []error{fmt.Errorf("send: %w", unsafe)}},
			"batch: gave up after 1 attempt in 0s (permanent: not_idempotent inside): send: post: gave up after 1 attempt in 0s (not_idempotent): EOF"},
		{&retry.Error{Reason: retry.ReasonPermanent, Attempts: 1, Errs: []error{&retry.Error{Reason: retry.ReasonPermanent, Attempts: 1, Errs: []error{unsafe}}}},
			"retry: gave up after 1 attempt in 0s (permanent: not_idempotent inside): retry: gave up after 1 attempt in 0s (permanent: not_idempotent inside): post: gave up after 1 attempt in 0s (not_idempotent): EOF"},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{unsafe}},
			"retry: gave up after 1 attempt in 0s (max_attempts): post: gave up after 1 attempt in 0s (not_idempotent): EOF"},
		{&retry.Error{Reason: retry.ReasonPermanent, Attempts: 1, Errs: []error{(*retry.Error)(nil)}},
			"retry: gave up after 1 attempt in 0s (permanent): retry: nil *Error"},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3, Errs: []error{errors.Join(errDown, fmt.Errorf("close: \t\r\n\n\t%w\r gone  now \n", refused))}},
			"retry: gave up after 3 attempts in 0s (max_attempts): down; close:; connection refused; gone  now"},
		{&retry.Error{Reason: retry.ReasonGuard, Guard: "main.gate", Cause: retryIn(1234567890)}, "retry: not attempted (guard): main.gate: shut; retry after 1.23s"},
		{&retry.Error{Reason: retry.ReasonGuard, Attempts: 1, Guard: "main.gate", Errs: []error{refused}, Cause: fmt.Errorf("gate: %w", retryIn(time.Minute))},
			"retry: gave up after 1 attempt in 0s (guard): connection refused; cause: main.gate: gate: shut; retry after 1m0s"},
		{&retry.Error{Reason: retry.ReasonGuard, Guard: "main.gate", Cause: retryIn(0)}, "retry: not attempted (guard): main.gate: shut"},
		{&retry.Error{}, "retry: gave up after 0 attempts in 0s (none)"},
		{&retry.Error{Elapsed: 10_006}, "retry: gave up after 0 attempts in 10µs (none)"},
		{&retry.Error{Elapsed: 9_994}, "retry: gave up after 0 attempts in 9.99µs (none)"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("Error() =\n%s, want\n%s", got, tt.want)
		}
	}
}

// retryIn is the refusal of a guard that says how long to wait.
type retryIn time.Duration

func (retryIn) Error() string               { return "shut" }
func (r retryIn) RetryAfter() time.Duration { return time.Duration(r) }

// shut admits one attempt.
type shut struct{ admitted bool }

func (s *shut) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	if s.admitted {
		return retry.Pass{}, retryIn(10 * time.Second)
	}
	s.admitted = true
	return retry.Pass{}, nil
}

func (*shut) Leave(retry.Pass, retry.Exit) {}

// A run that ends because its next wait is too long says how long that is.
func TestErrorNamesTheWaitThatIsTooLong(t *testing.T) {
	for want, change := range map[string]func(p *retry.Policy, deadline *time.Duration, err *error){
		"x: gave up after 1 attempt in 0s (retry_after: 1h0m0s is more than 5m0s): down": func(_ *retry.Policy, _ *time.Duration, err *error) { *err = retry.After(errDown, time.Hour) },
		"x: gave up after 1 attempt in 0s (retry_after: 1m1s is more than 1m0s): down": func(p *retry.Policy, _ *time.Duration, err *error) {
			p.MaxRetryAfter, *err = time.Minute, retry.After(errDown, 61*time.Second)
		},
		"x: gave up after 1 attempt in 0s (retry_after: 5m0.001s is more than 5m0s): down": func(_ *retry.Policy, _ *time.Duration, err *error) {
			*err = retry.After(errDown, 5*time.Minute+time.Millisecond)
		},
		"x: gave up after 1 attempt in 0s (deadline: the next wait would pass it): down":  func(_ *retry.Policy, d *time.Duration, _ *error) { *d = 2 * time.Second },
		"x: gave up after 2 attempts in 2s (deadline: the next wait would pass it): down": func(_ *retry.Policy, d *time.Duration, _ *error) { *d = 4 * time.Second },
		"x: gave up after 1 attempt in 0s (max_elapsed): down":                            func(p *retry.Policy, _ *time.Duration, _ *error) { p.MaxElapsed = time.Second },
		"x: gave up after 5 attempts in 8s (max_attempts): down":                          func(*retry.Policy, *time.Duration, *error) {},
		"x: gave up after 1 attempt in 0s (not_idempotent): down":                         func(p *retry.Policy, d *time.Duration, _ *error) { p.NonIdempotent, *d = true, time.Second },
		"x: gave up after 1 attempt in 0s (permanent): down":                              func(_ *retry.Policy, d *time.Duration, err *error) { *err, *d = retry.Stop(errDown), time.Second },
		"x: gave up after 1 attempt in 2s (guard): down; cause: retry_test.shut: shut; retry after 10s": func(p *retry.Policy, d *time.Duration, _ *error) {
			p.Guards, *d = []retry.Guard{new(shut)}, 5*time.Second
		},
	} {
		p, clock := virtual()
		p.Name, p.Backoff = "x", retry.Constant(2*time.Second)
		deadline, fails := time.Hour, errDown
		change(&p, &deadline, &fails)
		ctx, cancel := clock.WithTimeoutCause(t.Context(), deadline, nil)
		if err := retry.Run(ctx, p, func(context.Context) error { return fails }); err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		cancel()
	}
}

// overdue is a context whose deadline has passed, and that has not noticed yet.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return epoch, true }

// A deadline that has passed is not one that the next wait would pass.
func TestErrorOfADeadlineThatHasPassed(t *testing.T) {
	p, _ := virtual()
	const want = "op: gave up after 1 attempt in 0s (deadline): down"
	if err := retry.Run(overdue{t.Context()}, p, func(context.Context) error { return errDown }); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestReasonAndClassWords(t *testing.T) {
	var words, types []string
	for r := retry.ReasonNone; r <= retry.ReasonGuard+1; r++ {
		words = append(words, r.String())
		types = append(types, (&retry.Error{Reason: r}).ErrorType())
	}
	want := []string{
		"none", "permanent", "refused", "not_idempotent", "max_attempts", "max_elapsed", "deadline", "retry_after", "budget",
		"canceled", "panic", "guard", "unknown",
	}
	if !slices.Equal(words, want) {
		t.Errorf("reasons are %v, want %v", words, want)
	}
	for i := range want {
		want[i] = "retry." + want[i]
	}
	if !slices.Equal(types, want) {
		t.Errorf("error types are %v, want %v", types, want)
	}
	words = nil
	for c := retry.Unknown; c <= retry.Unprocessed+1; c++ {
		words = append(words, c.String())
	}
	if want := []string{"unknown", "permanent", "transient", "timed_out", "throttled", "unprocessed", "unknown"}; !slices.Equal(words, want) {
		t.Errorf("classes are %v, want %v", words, want)
	}
}

func TestErrorsOfALongRunAreBounded(t *testing.T) {
	for _, attempts := range []int{7, 8, 9, 100} {
		p, _ := virtual()
		p.MaxAttempts, p.Backoff = attempts, retry.Constant(0)
		n := 0
		err := retry.Run(t.Context(), p, func(context.Context) error { n++; return classed(n) })
		want := []error{classed(1)}
		for i := max(2, attempts-6); i <= attempts; i++ {
			want = append(want, classed(i))
		}
		e := gaveUp(t, err)
		if !slices.Equal(e.Errs, want) || e.Attempts != attempts || e.Last() != classed(attempts) {
			t.Errorf("after %d attempts Errs = %d, want %d: the first and the latest seven", attempts, e.Errs, want)
		}
	}
}

// An error that is kept does not keep its run's context and policy.
func TestErrorHoldsNothingOfItsRun(t *testing.T) {
	held := new([1 << 16]byte)
	freed := make(chan bool)
	runtime.AddCleanup(held, func(freed chan bool) { close(freed) }, freed)
	p, _ := virtual()
	err := retry.Run(context.WithValue(t.Context(), held, 1), p, func(context.Context) error { return errDown })
	held = nil
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		runtime.GC()
		select {
		case <-freed:
			runtime.KeepAlive(err)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the context's value is still alive")
}

func TestNilErrorInAnInterface(t *testing.T) {
	var none *retry.Error
	if none.Last() == nil || none.ErrorType() != "retry.unknown" || retry.DefaultClassifier(none) != retry.Transient {
		t.Error("a nil *Error has an error or a class of its own")
	}
	p, _ := virtual()
	p.MaxAttempts = 2
	if e := gaveUp(t, retry.Run(t.Context(), p, func(context.Context) error { return none })); e.Attempts != 2 || errors.Is(e, errDown) || e.Error() == "" {
		t.Errorf("%v, want 2 attempts: it is an error like any other", e)
	}
}

// What an attempt said last is what errors.As should find: its hint, its status.
func TestErrorsAsFindsTheNewestError(t *testing.T) {
	first, last := coded{503}, coded{429}
	err := error(&retry.Error{Errs: []error{first, errDown, last}, Cause: coded{408}})
	if got, ok := errors.AsType[coded](err); !ok || got != last {
		t.Errorf("errors.As finds %v, want the newest, %v", got, last)
	}
	want := []error{last, errDown, first, coded{408}}
	if got := err.(*retry.Error).Unwrap(); !slices.Equal(got, want) {
		t.Errorf("Unwrap() = %v, want %v", got, want)
	}
}

type coded struct{ code int }

func (c coded) Error() string { return fmt.Sprint("status ", c.code) }

// An *Error is its context's error for two reasons, and for no other.
func TestErrorIsTheContextsErrorOfItsReason(t *testing.T) {
	for r := retry.ReasonNone; r <= retry.ReasonPanic; r++ {
		e := &retry.Error{Reason: r, Errs: []error{errDown}}
		for target, want := range map[error]bool{
			context.Canceled:         r == retry.ReasonCanceled,
			context.DeadlineExceeded: r == retry.ReasonDeadline,
			errDown:                  true,
			errors.New("other"):      false,
		} {
			if got := errors.Is(e, target); got != want {
				t.Errorf("%v: errors.Is(e, %v) = %v, want %v", r, target, got, want)
			}
		}
	}
}

func TestErrorMarkedSaysThatAMarkEndedTheRun(t *testing.T) {
	permanent := func(error) retry.Class { return retry.Permanent }
	for name, tt := range map[string]struct {
		err      error
		classify retry.Classifier
		reason   retry.Reason
		want     bool
	}{
		"Stop":                     {retry.Stop(errDown), nil, retry.ReasonPermanent, true},
		"Stop, inside":             {fmt.Errorf("x: %w", retry.Stop(errDown)), nil, retry.ReasonPermanent, true},
		"Answer":                   {retry.Answer(errDown), nil, retry.ReasonPermanent, true},
		"Refuse":                   {retry.Refuse(errDown), nil, retry.ReasonRefused, true},
		"Classify":                 {errDown, permanent, retry.ReasonPermanent, false},
		"DefaultClassifier":        {status(404), nil, retry.ReasonPermanent, false},
		"an inner run was refused": {&retry.Error{Reason: retry.ReasonRefused, Attempts: 1, Errs: []error{errDown}}, nil, retry.ReasonRefused, false},
		"After, too often":         {retry.After(errDown, 0), nil, retry.ReasonMaxAttempts, false},
		"After, too long":          {retry.After(errDown, time.Hour), nil, retry.ReasonRetryAfter, false},
	} {
		for door, run := range doors {
			p, _ := virtual()
			p.MaxAttempts, p.Classify, p.MaxRetryAfter = 2, tt.classify, 5*time.Minute // without the last Supervise waits longer
			err := run(t.Context(), p, func(context.Context) error { return tt.err })
			if got := wantReason(t, err, tt.reason).Marked; got != tt.want {
				t.Errorf("%s, %s: Marked = %v, want %v", name, door, got, tt.want)
			}
		}
	}
}

// A mark is not an error of its own kind for those who count by type.
func TestMarkHasTheErrorTypeOfWhatIsMarked(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errDown, "*errors.errorString"},
		{context.DeadlineExceeded, "context.deadlineExceededError"},
		{hinted(1), "github.com/goretry/retry_test.hinted"},
		{fmt.Errorf("x: %w", fmt.Errorf("y: %w", hinted(1))), "github.com/goretry/retry_test.hinted"},
		{fmt.Errorf("x: %w", retry.ErrAttemptTimeout), "retry.attempt_timeout"},
		{errors.Join(errDown, retry.ErrAttemptTimeout), "retry.attempt_timeout"},
		{errors.Join(errDown), "*errors.joinError"},
		{retry.After(errDown, 1), "*errors.errorString"},
		{&retry.Error{Reason: retry.ReasonBudget}, "retry.budget"},
		{typeless{}, "github.com/goretry/retry_test.typeless"},
	} {
		for _, mark := range []error{retry.Stop(tt.err), retry.After(tt.err, time.Second)} {
			if got := mark.(interface{ ErrorType() string }).ErrorType(); got != tt.want {
				t.Errorf("mark around %T: ErrorType() = %q, want %q", tt.err, got, tt.want)
			}
		}
	}
}

// typeless has a method ErrorType and nothing to say.
type typeless struct{}

func (typeless) Error() string     { return "typeless" }
func (typeless) ErrorType() string { return "" }

func TestUnwrapDoesNotShareErrs(t *testing.T) {
	e := &retry.Error{Errs: make([]error, 1, 8), Cause: context.Canceled}
	e.Errs[0] = errDown
	if got := e.Unwrap(); !slices.Equal(got, []error{errDown, context.Canceled}) {
		t.Errorf("Unwrap() = %v, want Errs and Cause", got)
	}
	if e.Errs[:2][1] != nil {
		t.Error("Unwrap wrote behind Errs")
	}
	if got := new(retry.Error).Unwrap(); len(got) != 0 {
		t.Errorf("Unwrap() = %v, want nothing", got)
	}
	if e := new(retry.Error); e.Last() == nil || e.Last() == error(e) || e.Timeout() || e.Error() != "retry: gave up after 0 attempts in 0s (none)" || retry.DefaultClassifier(e) != retry.Transient {
		t.Errorf("Last() = %v, want an error", e.Last())
	}
}

// unhashable is an error whose values cannot be compared.
type unhashable struct{ parts []string }

func (u unhashable) Error() string { return fmt.Sprint(u.parts) }

func TestUncomparableErrorsDoNotPanic(t *testing.T) {
	p, _ := virtual()
	bad := unhashable{[]string{"x"}}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := retry.Run(ctx, p, func(context.Context) error {
		if retry.DefaultClassifier(bad) != retry.Unknown {
			t.Error("DefaultClassifier knows it")
		}
		cancel(fmt.Errorf("cause: %w", bad))
		return errors.Join(bad, bad)
	})
	if errors.Is(err, bad) || errors.Is(err, unhashable{}) {
		t.Error("errors.Is says that uncomparable errors are equal")
	}
	if err.Error() == "" {
		t.Error("no text")
	}
	if e, ok := errors.AsType[unhashable](err); !ok || e.parts[0] != "x" {
		t.Error("errors.As does not find the error")
	}
}

// An inner run removes the mark of After, but what the server asked for is true for
// the outer run as well.
func TestOuterRunWaitsForTheInnerRunsAfter(t *testing.T) {
	for _, tt := range []struct {
		name  string
		wrap  func(error) error
		waits bool
	}{
		{"itself", func(err error) error { return err }, true},
		{"wrapped", func(err error) error { return fmt.Errorf("orders: %w", err) }, true},
		{"joined", func(err error) error { return errors.Join(errors.New("orders"), err) }, true},
		{"behind As", func(err error) error { return multi(errDown, err) }, true},
		{"its last error", func(err error) error { return err.(*retry.Error).Last() }, false},
	} {
		p, v := virtual()
		p.MaxAttempts, p.Backoff, p.MaxRetryAfter = 2, retry.Constant(time.Second), time.Hour
		inner := retry.Policy{MaxAttempts: 1, Clock: v}
		began := v.Now()
		err := retry.Run(t.Context(), p, func(ctx context.Context) error {
			return tt.wrap(retry.Run(ctx, inner, func(context.Context) error { return retry.After(errDown, time.Minute) }))
		})
		wantReason(t, err, retry.ReasonMaxAttempts)
		want := time.Second
		if tt.waits {
			want += time.Minute
		}
		if took := v.Now().Sub(began); took != want {
			t.Errorf("%s: it took %v, want %v", tt.name, took, want)
		}
	}
}

func TestMarksOfNil(t *testing.T) {
	if retry.Stop(nil) != nil || retry.Refuse(nil) != nil || retry.After(nil, time.Second) != nil {
		t.Error("Stop(nil), Refuse(nil) or After(nil, d) is not nil")
	}
	p, _ := virtual()
	//retryvet:ignore nilmark: what it comes to is the test
	if err := retry.Run(t.Context(), p, func(context.Context) error { return retry.Stop(nil) }); err != nil {
		t.Errorf("an op that returns Stop(nil) gave up: %v", err)
	}
}

func TestMarks(t *testing.T) {
	t.Run("Stop", func(t *testing.T) { testMark(t, retry.Stop, retry.ReasonPermanent) })
	t.Run("Refuse", func(t *testing.T) { testMark(t, retry.Refuse, retry.ReasonRefused) })
}

func testMark(t *testing.T, mark func(error) error, reason retry.Reason) {
	stop := mark(errDown)
	for _, tt := range []struct {
		name string
		err  error
		last error // as Errs keep it, compared by text and identity where it is not nil
	}{
		{"plain", stop, errDown},
		{"twice", mark(stop), errDown},
		{"wrapped", fmt.Errorf("load: %w", stop), nil},
		{"joined", errors.Join(errors.New("a"), stop), nil},
		{"two %w", fmt.Errorf("%w and %w", errors.New("a"), stop), nil},
		{"deep", fmt.Errorf("x: %w", errors.Join(errors.New("a"), fmt.Errorf("y: %w", stop))), nil},
		{"before a hint", errors.Join(stop, hinted(time.Second)), nil},
		{"after a hint", errors.Join(hinted(time.Second), stop), nil},
		{"outside of After", mark(retry.After(errDown, time.Second)), errDown},
		{"before what the classifier says", errors.Join(classed(retry.Transient), stop), nil},
		{"after a rejected value", errors.Join(retry.ErrRejected, stop), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := virtual()
			p.Classify = byClass
			err := retry.Run(t.Context(), p, func(context.Context) error { return tt.err })
			e := wantReason(t, err, reason)
			if e.Attempts != 1 {
				t.Errorf("%d attempts, want 1", e.Attempts)
			}
			if e.Last().Error() != tt.err.Error() {
				t.Errorf("the text is %q, want it unchanged: %q", e.Last(), tt.err)
			}
			want := tt.last
			if want == nil {
				want = tt.err // the caller's wrapping is kept
			}
			if e.Last() != want {
				t.Errorf("Last() = %#v, want %#v", e.Last(), want)
			}
			if !errors.Is(err, errDown) {
				t.Error("the marked error is lost")
			}
		})
	}
}

// Of several marks the outermost decides, and of joined errors the first that has one.
func TestTheOutermostMarkDecides(t *testing.T) {
	stopped := fmt.Errorf("x: %w", retry.Stop(errDown))
	for name, tt := range map[string]struct {
		err  error
		want retry.Reason
	}{
		"Stop beneath After":         {retry.After(stopped, time.Second), retry.ReasonMaxAttempts},
		"Stop around After":          {retry.Stop(retry.After(errDown, time.Second)), retry.ReasonPermanent},
		"Stop beneath Undone":        {retry.Undone(stopped), retry.ReasonPermanent},
		"joined, Stop after After":   {errors.Join(retry.After(errDown, time.Second), stopped), retry.ReasonMaxAttempts},
		"joined, Stop before After":  {errors.Join(stopped, retry.After(errDown, time.Second)), retry.ReasonPermanent},
		"joined, Stop after Undone":  {errors.Join(retry.Undone(errDown), stopped), retry.ReasonPermanent},
		"joined, Stop after no mark": {errors.Join(errDown, stopped), retry.ReasonPermanent},
	} {
		p, _ := virtual()
		t.Run(name, func(t *testing.T) {
			wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { return tt.err }), tt.want)
		})
	}
}

// A refused run has failed to all that watch it. An outer run ends so too: there is
// one server, and it asked not to be called again.
func TestRefusedEndsARun(t *testing.T) {
	refusedRun := &retry.Error{Reason: retry.ReasonRefused, Attempts: 1, Errs: []error{errDown}}
	stopped := &retry.Error{Reason: retry.ReasonPermanent, Attempts: 1, Errs: []error{errDown}}
	inCanceled := &retry.Error{Reason: retry.ReasonCanceled, Attempts: 1, Errs: []error{fmt.Errorf("x: %w", retry.Refuse(errDown))}}
	transient := func(error) retry.Class { return retry.Transient }
	for _, tt := range []struct {
		name     string
		classify retry.Classifier
		err      error
		want     retry.Reason
	}{
		{"the mark", nil, retry.Refuse(errDown), retry.ReasonRefused},
		{"the mark, whatever the classifier says", transient, retry.Refuse(errDown), retry.ReasonRefused},
		{"around Stop", nil, retry.Refuse(retry.Stop(errDown)), retry.ReasonRefused},
		{"inside of Stop", nil, retry.Stop(retry.Refuse(errDown)), retry.ReasonPermanent},
		{"inside of After", nil, retry.After(retry.Refuse(errDown), 0), retry.ReasonMaxAttempts},
		{"joined, the first mark", nil, errors.Join(retry.Refuse(errDown), retry.Stop(errDown)), retry.ReasonRefused},
		{"joined, not the first mark", nil, errors.Join(retry.Stop(errDown), retry.Refuse(errDown)), retry.ReasonPermanent},
		{"behind As", nil, multi(errDown, retry.Refuse(errDown)), retry.ReasonRefused},
		{"an inner run", nil, fmt.Errorf("x: %w", refusedRun), retry.ReasonRefused},
		{"an inner run, whatever it holds", nil, &retry.Error{Reason: retry.ReasonRefused}, retry.ReasonRefused},
		{"an inner run behind As", nil, multi(errDown, refusedRun), retry.ReasonRefused},
		{"an inner run, and a classifier that does not mind", transient, refusedRun, retry.ReasonMaxAttempts},
		{"an inner run that was stopped", nil, stopped, retry.ReasonPermanent},
		{"two inner runs", nil, errors.Join(refusedRun, stopped), retry.ReasonRefused},
		{"two inner runs, the other first", nil, errors.Join(stopped, refusedRun), retry.ReasonPermanent},
		{"two inner runs, one behind As", nil, errors.Join(multi(refusedRun), stopped), retry.ReasonRefused},
		{"two inner runs, the other one behind As", nil, errors.Join(multi(stopped), refusedRun), retry.ReasonPermanent},
		{"an inner run beside a mark", nil, errors.Join(refusedRun, retry.Stop(errDown)), retry.ReasonPermanent},
		{"an inner run beside a mark of Refuse", nil, errors.Join(stopped, retry.Refuse(errDown)), retry.ReasonRefused},
		{"a mark inside of an inner run", nil, inCanceled, retry.ReasonMaxAttempts},
		{"an inner run that was refused, in one that was not", nil, &retry.Error{Reason: retry.ReasonPermanent, Attempts: 1, Errs: []error{refusedRun}}, retry.ReasonPermanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := virtual()
			p.Classify = tt.classify
			var class retry.Class
			p.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) { class = a.Class }
			e := wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { return tt.err }), tt.want)
			if tt.want == retry.ReasonMaxAttempts {
				return
			}
			if judged := p.Judge(tt.err).Class; class != retry.Permanent || judged != retry.Permanent {
				t.Errorf("hooks see %v, Judge says %v, want permanent", class, judged)
			}
			if e.Is(context.Canceled) || e.Timeout() {
				t.Error("the error claims that a context ended")
			}
		})
	}
}

func TestAfterOutsideOfStopWins(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts = 2
	err := retry.Run(t.Context(), p, func(context.Context) error { return retry.After(retry.Stop(errDown), time.Second) })
	wantReason(t, err, retry.ReasonMaxAttempts)
	wantElapsed(t, v, 2*time.Second)
}

// FuzzErrorTrees builds trees of marks, wrappers, joins, inner runs, methods and nil
// pointers from bytes, and compares how a run ends with what a walk of the same
// tree says.
func FuzzErrorTrees(f *testing.F) {
	for _, program := range [][]byte{
		{0}, {1, 0}, {4, 2, 0, 1, 0}, {5, 1, 0, 4, 0, 2, 0}, {4, 6, 3, 0}, {4, 7, 0}, {5, 0, 3, 7}, {4, 7, 1, 0},
		{9, 0, 1, 0}, {9, 6, 1, 0, 2, 0}, {10, 7, 0}, {11, 0}, {12, 13, 7}, {4, 8, 9, 0, 14, 2, 0}, {12, 9, 0, 1, 0}, {6, 2, 0},
	} {
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 64 {
			return
		}
		tree, _ := buildTree(program, 0)
		err, word := tree.err, tree.word
		p, v := virtual()
		p.MaxAttempts = 2
		p.Classify = func(error) retry.Class {
			if word != "" {
				t.Errorf("Classify was asked about a tree with the mark %s", word)
			}
			return retry.Transient
		}
		got := gaveUp(t, retry.Run(t.Context(), p, func(context.Context) error { return err }))
		want := map[string]retry.Reason{
			"": retry.ReasonMaxAttempts, "after": retry.ReasonMaxAttempts, "rejected": retry.ReasonMaxAttempts,
			"stop": retry.ReasonPermanent,
		}[word]
		if got.Reason != want {
			t.Errorf("%q (first word %q) ended with %v, want %v", err, word, got.Reason, want)
		}
		if got.Last().Error() != err.Error() {
			t.Errorf("the text became %q, was %q", got.Last(), err)
		}
		wait := map[string]time.Duration{"stop": 0, "after": 3 * time.Second}
		if _, ok := wait[word]; !ok {
			wait[word] = time.Second + tree.hint
		}
		if got := v.Now().Sub(epoch); got != wait[word] {
			t.Errorf("%q (first word %q) waited %v, want %v", err, word, got, wait[word])
		}
		judgedAsEver(t, err)
		class := retry.DefaultClassifier(err)
		if class == retry.Unprocessed && !tree.proves {
			t.Errorf("%q is %v, but not every error in it proves that", err, class)
		}
		if outer := retry.DefaultClassifier(got); outer == retry.Unprocessed && !tree.proves {
			t.Errorf("after a run %q is %v", err, outer)
		}
		_ = got.Timeout()
	})
}

// tree is an error, the first word in it that a run obeys, the first wait that it
// asks for, whether it holds an inner run, and whether all in it proves that op did
// nothing.
type tree struct {
	err    error
	word   string
	hint   time.Duration
	run    bool
	proves bool
}

// joins returns the tree of two errors that are joined to err. A mark anywhere
// comes before ErrRejected.
func (first tree) joins(second tree, err error) tree {
	word := first.word
	if word == "" || word == "rejected" && second.word != "" {
		word = second.word
	}
	return tree{err, word, cmp.Or(first.hint, second.hint), first.run || second.run, first.proves && second.proves}
}

// buildTree reads a tree, and returns what is left of the program.
func buildTree(program []byte, depth int) (tree, []byte) {
	if len(program) == 0 || depth > 12 {
		return tree{err: errDown}, nil
	}
	op, rest := program[0]%16, program[1:]
	switch op {
	case 0:
		return tree{err: errDown}, rest
	case 7:
		return tree{err: retry.ErrRejected, word: "rejected"}, rest
	case 8: // a nil pointer
		return tree{err: (*unhurt)(nil)}, rest
	case 11:
		return tree{err: dial(syscall.ECONNREFUSED), proves: true}, rest
	case 13:
		return tree{err: hinted(time.Minute), hint: time.Minute}, rest
	case 14:
		return tree{err: throttle(429), hint: time.Hour / 60}, rest
	}
	first, rest := buildTree(rest, depth+1)
	switch op {
	case 1:
		first.err, first.word = retry.Stop(first.err), "stop"
		return first, rest
	case 2:
		first.err, first.word = retry.After(first.err, 2*time.Second), "after"
		return first, rest
	case 3:
		first.err = fmt.Errorf("wrap: %w", first.err)
		return first, rest
	case 6: // an inner run: no word of it counts, but the wait of an After does
		switch first.word {
		case "stop":
			first.hint = 0
		case "after":
			first.hint = 2 * time.Second
		}
		return tree{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{first.err}}, "", first.hint, true, first.proves}, rest
	case 10: // as http.Client wraps: it may have sent something
		first.err, first.proves = &url.Error{Op: "Get", Err: first.err}, false
		return first, rest
	case 12: // a type of one's own
		first.err = &bare{first.err}
		return first, rest
	}
	second, rest := buildTree(rest, depth+1)
	switch op {
	case 4, 15:
		return first.joins(second, errors.Join(first.err, second.err)), rest
	case 9: // behind methods As and Is, which prove nothing
		if first.run || second.run { // an As that finds an inner run hides whose the marks are
			return first.joins(second, errors.Join(first.err, second.err)), rest
		}
		first.proves, second.proves = false, false
		return first.joins(second, multi(first.err, second.err)), rest
	}
	return first.joins(second, fmt.Errorf("%w + %w", first.err, second.err)), rest
}

// unhurt is an error whose nil pointer has a text.
type unhurt struct{}

func (*unhurt) Error() string { return "unhurt" }

// throttle is a status with a retry time of a minute.
type throttle int

func (throttle) Error() string             { return "throttle" }
func (e throttle) StatusCode() int         { return int(e) }
func (throttle) RetryAfter() time.Duration { return time.Minute }

// What is asked of a net.Error, and of the error that hooks get for a panic.
func TestOwnErrorsSayWhatTheyAre(t *testing.T) {
	timeout, ok := retry.ErrAttemptTimeout.(net.Error)
	//lint:ignore SA1019 there are callers who ask
	if !ok || !timeout.Timeout() || !timeout.Temporary() {
		t.Error("ErrAttemptTimeout is no net.Error that timed out")
	}
	p, _ := virtual()
	seen := record(&p)
	caught(func() { _ = retry.Run(t.Context(), p, func(context.Context) error { panic("x") }) })
	if e, ok := seen.attempts[0].Err.(interface{ ErrorType() string }); !ok || e.ErrorType() != "retry.panic" {
		t.Errorf("the attempt that panicked has the error %v, want one of type retry.panic", seen.attempts[0].Err)
	}
}

func TestErrorSaysWhetherItTimedOut(t *testing.T) {
	for _, c := range []struct {
		err  *retry.Error
		want bool
	}{
		{nil, false},
		{&retry.Error{Reason: retry.ReasonDeadline}, true},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Errs: []error{fmt.Errorf("read: %w", retry.ErrAttemptTimeout)}}, true},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Errs: []error{retry.ErrAttemptTimeout, errDown}}, false},
		{&retry.Error{Reason: retry.ReasonCanceled, Errs: []error{retry.ErrAttemptTimeout}}, false},
		// Whoever wraps a timeout may have a Timeout method that looks at one error only.
		{&retry.Error{Errs: []error{&url.Error{Err: fmt.Errorf("read: %w", retry.ErrAttemptTimeout)}}}, true},
		{&retry.Error{Errs: []error{errors.Join(errDown, timeout(false), read(fmt.Errorf("x: %w", timeout(true))))}}, true},
		{&retry.Error{Errs: []error{&retry.Error{Errs: []error{retry.ErrAttemptTimeout}}}}, true},
		{&retry.Error{Errs: []error{&retry.Error{Errs: []error{retry.ErrAttemptTimeout, errDown}}}}, false}, // the last one's is what counts
		{&retry.Error{Errs: []error{&retry.Error{Reason: retry.ReasonDeadline}}}, true},
		{&retry.Error{Errs: []error{multi(errDown, context.DeadlineExceeded)}}, true},
		{&retry.Error{Errs: []error{errDown}}, false},
	} {
		if got := (&url.Error{Err: c.err}).Timeout(); got != c.want {
			t.Errorf("url.Error around %v: Timeout() = %v, want %v", c.err, got, c.want)
		}
	}
}

func TestTextOfANilPointerAsCause(t *testing.T) {
	e := &retry.Error{Reason: retry.ReasonCanceled, Attempts: 1, Errs: []error{errDown}, Cause: (*url.Error)(nil)}
	if got := e.Error(); !strings.Contains(got, "; cause: ") {
		t.Errorf("text %q has no cause", got)
	}
}

// As users of package net mean it: the same call may succeed later.
func TestErrorIsTemporary(t *testing.T) {
	late := &url.Error{Op: "Get", Err: context.DeadlineExceeded}
	temporary := []retry.Reason{retry.ReasonMaxAttempts, retry.ReasonMaxElapsed, retry.ReasonDeadline, retry.ReasonRetryAfter, retry.ReasonBudget, retry.ReasonGuard}
	for reason := retry.ReasonNone; reason <= retry.ReasonGuard+1; reason++ {
		e := &retry.Error{Reason: reason, Attempts: 1, Errs: []error{late}}
		want := slices.Contains(temporary, reason)
		var ne net.Error = e
		//lint:ignore SA1019 there are callers who ask
		if got := ne.Temporary(); got != want || (&url.Error{Err: e}).Temporary() != want {
			t.Errorf("%v: Temporary() = %v, want %v", reason, got, want)
		}
	}
	if (*retry.Error)(nil).Temporary() {
		t.Error("a nil *Error is temporary")
	}
}

// asksMinute is an error that asks for a wait by its method.
type asksMinute struct{}

func (asksMinute) Error() string             { return "asks" }
func (asksMinute) RetryAfter() time.Duration { return time.Minute }

// An outer run obeys the wait that an inner run was told, by a mark or by a method, also if that was canceled in it.
func TestOuterRunObeysTheWaitOfAnInnerRunThatWasCanceled(t *testing.T) {
	for name, failed := range map[string]error{"mark": retry.After(errDown, time.Minute), "method": asksMinute{}} {
		p, v := virtual()
		p.MaxAttempts = 2
		seen := record(&p)
		_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
			inner, _ := virtual()
			inner.Clock = v
			ctx, cancel := context.WithCancel(ctx)
			v.AfterFunc(time.Second, cancel)
			return retry.Run(ctx, inner, func(context.Context) error { return failed })
		})
		if h := seen.attempts[0].Hint; h != time.Minute {
			t.Errorf("%s: the outer run saw a hint of %v, want 1m", name, h)
		}
	}
}

// A context that has ended hides what went wrong before: the text says that, too, once.
func TestTextOfAnErrorThatAContextHides(t *testing.T) {
	unavailable := errors.New("503 Service Unavailable")
	over := fmt.Errorf(`Get "https://x": %w`, context.DeadlineExceeded)
	inner := func(errs ...error) *retry.Error {
		return &retry.Error{Name: "inner", Attempts: len(errs), Reason: retry.ReasonDeadline, Errs: errs, Cause: context.DeadlineExceeded}
	}
	const head = "retry: gave up after 9 attempts in 0s (deadline): "
	for _, tt := range []struct {
		errs []error
		want string
	}{
		{[]error{unavailable, context.DeadlineExceeded}, "context deadline exceeded; before that: 503 Service Unavailable"},
		{[]error{errors.New("first"), unavailable, over, over}, `Get "https://x": context deadline exceeded; before that: 503 Service Unavailable`},
		{[]error{unavailable, errors.New("rpc error: code = DeadlineExceeded desc = context deadline exceeded")}, "rpc error: code = DeadlineExceeded desc = context deadline exceeded; before that: 503 Service Unavailable"},
		{[]error{unavailable, errors.New("Get: context deadline exceeded (Client.Timeout exceeded while awaiting headers)")}, "Get: context deadline exceeded (Client.Timeout exceeded while awaiting headers); before that: 503 Service Unavailable"},
		{[]error{unavailable, context.Canceled}, "context canceled; before that: 503 Service Unavailable"},
		{[]error{over, over}, `Get "https://x": context deadline exceeded`},
		{[]error{context.DeadlineExceeded, unavailable}, "503 Service Unavailable"},
		{[]error{unavailable, errors.New("query: context deadline exceeded: 503 Service Unavailable")}, "query: context deadline exceeded: 503 Service Unavailable"},
		{[]error{unavailable, inner(context.DeadlineExceeded)}, "inner: gave up after 1 attempt in 0s (deadline): context deadline exceeded; before that: 503 Service Unavailable"},
		{[]error{unavailable, inner(unavailable, context.DeadlineExceeded)}, "inner: gave up after 2 attempts in 0s (deadline): context deadline exceeded; before that: 503 Service Unavailable"},
		{[]error{errors.New("first"), inner(unavailable), context.DeadlineExceeded}, "context deadline exceeded; before that: 503 Service Unavailable"},
		{[]error{unavailable, inner(), inner(inner(context.Canceled)), context.DeadlineExceeded}, "context deadline exceeded; before that: 503 Service Unavailable"},
		{[]error{unavailable, errors.New("503 Service Unavailable, then: context deadline exceeded")}, "503 Service Unavailable, then: context deadline exceeded"},
		{[]error{errors.New("503: context deadline exceeded"), context.DeadlineExceeded}, "context deadline exceeded"},
		{[]error{errors.New(strings.Repeat("é", 200)), context.DeadlineExceeded}, "context deadline exceeded; before that: " + strings.Repeat("é", 128) + "…"},
		{[]error{errors.New("x" + strings.Repeat("é", 200)), context.DeadlineExceeded}, "context deadline exceeded; before that: x" + strings.Repeat("é", 127) + "…"},
	} {
		e := &retry.Error{Attempts: 9, Reason: retry.ReasonDeadline, Errs: tt.errs, Cause: context.DeadlineExceeded}
		if got := e.Error(); got != head+tt.want {
			t.Errorf("%q, want %q", got, head+tt.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var out bytes.Buffer
		err := retry.Run(ctx, retry.Policy{Backoff: retry.Constant(0), Hooks: retry.SlogHooks(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))}, func(ctx context.Context) error {
			if retry.AttemptNumber(ctx) == 1 {
				return unavailable
			}
			<-ctx.Done()
			return ctx.Err()
		})
		for _, text := range []string{err.Error(), out.String()} {
			if !strings.Contains(text, "; before that: 503 Service Unavailable") {
				t.Errorf("%q does not say what went wrong", text)
			}
		}
	})
}
