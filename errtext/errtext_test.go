package errtext_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
)

var errDown = errors.New("connection refused")

// hiding is an error that shows others only through As, as some joined ones do.
type hiding struct{ errs []error }

func (h hiding) Error() string { return errors.Join(h.errs...).Error() }
func (h hiding) As(target any) bool {
	return errors.As(errors.Join(h.errs...), target)
}

// opaque has a text of its own.
type opaque struct{ error }

func (o opaque) Error() string { return "opaque: " + o.error.Error() }
func (o opaque) Unwrap() error { return o.error }

// inner returns the error of a run that op's errors have ended.
func inner(t *testing.T, op func(context.Context) error) error {
	t.Helper()
	return retry.Run(t.Context(), retry.Policy{Name: "inner", MaxAttempts: 2, Backoff: retry.Constant(0)}, op)
}

func TestURLsAreShownWithoutSecrets(t *testing.T) {
	get := func(raw string) error { return &url.Error{Op: "Get", URL: raw, Err: errDown} }
	parse := func(raw string) error {
		_, err := url.Parse(raw)
		if err == nil {
			t.Fatalf("%q is a URL", raw)
		}
		return err
	}
	run := inner(t, func(ctx context.Context) error { return get("http://u:secret@host/a?token=secret") })
	for _, tt := range []struct {
		err  error
		want string
	}{
		{get("http://host/a/b"), `Get "http://host/a/b": connection refused`},
		{get("http://host/a?token=secret#secret"), `Get "http://host/a": connection refused`},
		{get("http://user:secret@host:80/@a?x=@secret"), `Get "http://host:80/@a": connection refused`},
		{get("//secret@host/a?"), `Get "//host/a": connection refused`},
		{get("http://host/?secret=\"\n\xff"), `Get "http://host/": connection refused`}, // what the error's text quotes
		{get("http:user:secret@host/a?secret"), `Get "host/a": connection refused`},     // opaque: no userinfo to a parser
		{get("http://user:sec%zzret@host/a?secret"), `Get "http://host/a": connection refused`},
		{get("http://us?er:secret@host/a"), `Get "http://us": connection refused`},    // the query begins in the name
		{get("http://user:12345?secret@host/a"), `Get "http://": connection refused`}, // a password, not a port
		{get("http://user:12345#secret@host/a"), `Get "http://": connection refused`},
		{get("http://host:80/a?mail=user@host"), `Get "http://host:80/a": connection refused`},
		{get("http://user:sec%zzret@host/a"), `Get "http://host/a": connection refused`},
		{get("?secret\x7f"), `Get "": connection refused`},
		{parse("secret@host/%zz?secret"), `parse "host/%zz": invalid URL escape "…"`},
		{get("u:secret@x://user%zz@host?secret"), `Get "host": connection refused`},
		{get("http://%zz?secret@secret"), `Get "http://": connection refused`}, // @ after the ?: nothing is safe
		{parse("http://user:sec/ret@host/a?secret"), `parse "http://host/a": invalid port "…" after host`},
		{fmt.Errorf("a: %w", get("http://host/?secret")), `a: Get "http://host/": connection refused`},
		{opaque{get("http://host/?secret")}, `opaque: Get "http://host/": connection refused`},
		{errors.Join(errDown, get("http://host/?secret=1"), get("http://host/?secret")), "connection refused\n" +
			`Get "http://host/": connection refused` + "\n" + `Get "http://host/": connection refused`},
		{fmt.Errorf("a: %w", hiding{[]error{get("http://host/?secret")}}), `a: Get "http://host/": connection refused`},
		{fmt.Errorf("redirected from /a\"?secret: %w", get(`/a"?secret`)), `redirected from /a%22: Get "/a%22": connection refused`},
		{fmt.Errorf(`redirected from '/a\"?secret': %w`, get(`/a"?secret`)), `redirected from '/a%22': Get "/a%22": connection refused`},
		{fmt.Errorf("redirected from http://host/?secret: %w", get("http://host/?secret")), `redirected from http://host/: Get "http://host/": connection refused`},
		{run, `max_attempts: Get "http://host/a": connection refused`},
		{get("http://host/?secret\xff" + strings.Repeat("secret", 1<<10)), `Get "http://host/": connection refused`},
		{&url.Error{Op: "Get", URL: "http://u:secret@host/b?secret", Err: fmt.Errorf("client: %w", run)},
			`Get "http://host/b": client: max_attempts: Get "http://host/a": connection refused`},
		{fmt.Errorf("a: %w", hiding{[]error{run}}), `a: max_attempts: Get "http://host/a": connection refused`},
		// What only a run's last error names: where an outer text repeats it, and where
		// it is no URL to a reader of texts.
		{fmt.Errorf("/a b?token=secret: %w", inner(t, func(context.Context) error { return get("/a b?token=secret") })),
			`/a%20b: max_attempts: Get "/a%20b": connection refused`},
		{get("http://host/a b?secret 1"), `Get "http://host/a%20b": connection refused`},
		{get("http://proxy/http://u:secret@host/"), `Get "http://proxy/http://host/": connection refused`},
	} {
		got := errtext.Of(tt.err)
		if got != tt.want || strings.Contains(got, "secret") {
			t.Errorf("Of:   %q\nwant  %q", got, tt.want)
		}
		of := &retry.Error{Reason: retry.ReasonBudget, Attempts: 1, Errs: []error{errors.New("first"), tt.err}}
		if got, want := ofRun(retry.ReasonBudget, of), "budget: "+tt.want; got != want {
			t.Errorf("of the run: %q\nwant   %q", got, want)
		}
	}
}

func TestTextsAreShownWithoutSecrets(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"user:pw@tcp(host)/db?x#y", "user:pw@tcp(host)/db?x#y"}, // no URL
		{"dial postgres://user:secret@host/db?sslmode=secret failed", "dial postgres://host/db failed"},
		{"dial postgres://user:12345/secret@host/db failed", "dial postgres://… failed"}, // a password, not a port
		{"dial postgres://user:12345?secret@host/db failed", "dial postgres://… failed"}, // nor here
		{"dial postgres://user:12345#secret@host/db failed", "dial postgres://… failed"},
		{"dial postgres://user:12345/db?secret@host failed", "dial postgres://… failed"},
		{"get http://host?mail=user@host failed", "get http://host failed"}, // no password begins here
		{"get http://host:80/@scope?secret failed", "get http://host:80/@scope failed"},
		{"get https://host/@scope/pkg failed", "get https://host/@scope/pkg failed"},
		{"a://h#secret\tb://h?secret\u00a0c://secret@h", "a://h\tb://h\u00a0c://h"},
		{"x://u:secret@sec@h:80/a@b", "x://h:80/a@b"},
		{"x://u@y://u:secret@h", "x://y://h"},
		{"x://@h:80/a@b", "x://h:80/a@b"},
		{" http://h?secret\nnext", " http://h\nnext"},
		{"http://?secret", "http://"},
		{"file:///home/u@h/x", "file:///home/u@h/x"},
		{"x://u:secret@h, https://u:secret@h.", "x://h, https://h."},
		{"mongodb://u:secret@a:1,b:2/db", "mongodb://a:1,b:2/db"},
		{"nats://u:secret@a:1,nats://u:secret@b:2", "nats://a:1,nats://b:2"},
		{`Get "http://h?secret": EOF`, `Get "http://h EOF`},
		{"://secret@h", "://h"},
		{"://", "://"},
		{"http://h://?://secret", "http://h://"},
		// Half a URL.
		{"http://user:secret", "http://…"},
		{"http://user:1secret", "http://…"},
		{"http://u:sec/ret@host/a b", "http://… b"},
		{"http://u:sec/ret", "http://…"},
		{"http://u:s:1234", "http://…"},
		{"http://u:123456", "http://…"},
		{"http://:secret", "http://…"},
		{"http://[::1secret", "http://…"},
		{"http://[::1]secret", "http://…"},
		{"http://user:#secret", "http://user:"},
		{"http://user:secret://host", "http://…"},
		// Hosts and what may follow them in a text.
		{"http://h: refused", "http://h: refused"},
		{"http://h:80: refused", "http://h:80: refused"},
		{"http://h:65535: refused", "http://h:65535: refused"},
		{`"http://h:80": refused`, `"http://h:80": refused`},
		{"(http://h:80), http://[::1]:80/a, http://[::1]: no", "(http://h:80), http://[::1]:80/a, http://[::1]: no"},
		{"unix:///run/x.sock:1", "unix:///run/x.sock:1"},
	} {
		if got := errtext.Of(errors.New(tt.text)); got != tt.want {
			t.Errorf("Of(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
	long := strings.Repeat("x", 1<<20)
	if got, want := errtext.Of(fmt.Errorf("%s http://u:secret@h/?secret", long)), long+" http://h/"; got != want {
		t.Error("a long text is not shown whole")
	}
}

// Texts of the same kind are the same text, so that they can be grouped.
func TestRunsAreDescribedByReasonAndLastError(t *testing.T) {
	deadline, cancel := context.WithTimeoutCause(t.Context(), 0, errors.New("too late"))
	defer cancel()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "budget"},
		{(*retry.Error)(nil), "budget"},
		{errDown, "budget"}, // not of a run
		{&retry.Error{}, "budget"},
		{&retry.Error{Attempts: 3, Errs: []error{errDown, context.Canceled}}, "budget: context canceled"},
		{&retry.Error{Attempts: 3, Cause: errDown}, "budget"}, // the cause of no attempt's error
		{&retry.Error{Cause: errDown}, "budget: connection refused"},
		{&retry.Error{Errs: []error{errDown}, Cause: context.Canceled}, "budget: connection refused"},
		{&retry.Error{Errs: []error{retry.Run(deadline, retry.Policy{}, succeed)}}, "budget: deadline: too late"},
	} {
		if got := ofRun(retry.ReasonBudget, tt.err); got != tt.want {
			t.Errorf("of the run %v:  %q, want %q", tt.err, got, tt.want)
		}
	}
	twice := inner(t, func(context.Context) error { return errDown })
	err := fmt.Errorf("%w and %w", twice, fmt.Errorf("load: %w", twice))
	if got, want := errtext.Of(err), "max_attempts: connection refused and load: max_attempts: connection refused"; got != want {
		t.Errorf("Of = %q, want %q", got, want)
	}
	once := &retry.Error{Reason: retry.ReasonBudget, Attempts: 1, Errs: []error{errDown}}
	outer := &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3, Errs: []error{once}}
	if got, want := errtext.Of(errors.Join(once, outer)), "budget: connection refused\nmax_attempts: budget: connection refused"; got != want {
		t.Errorf("Of = %q, want %q", got, want)
	}
	if got, want := errtext.Of(inner(t, func(context.Context) error { return err })), "max_attempts: "+errtext.Of(err); got != want {
		t.Errorf("Of = %q, want %q", got, want)
	}
}

// slow has attempts wait for an hour and some seconds.
type slow struct{ seconds int }

func (s slow) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{Wait: time.Hour + time.Duration(s.seconds)*time.Second}, nil
}
func (slow) Leave(retry.Pass, retry.Exit) {}

// Runs that end because their turns would come too late have one text, however late.
func TestHowLateATurnWouldComeIsNotShown(t *testing.T) {
	for seconds := range 2 {
		err := retry.Run(t.Context(), retry.Policy{MaxElapsed: time.Second, Guards: []retry.Guard{slow{seconds}}}, succeed)
		e, ok := errors.AsType[*retry.Error](err)
		if !ok || !errors.Is(err, retry.ErrPaced) || e.Cause.Error() == retry.ErrPaced.Error() {
			t.Fatalf("%v, want a cause that is ErrPaced and says more", err)
		}
		const text = "retry: its turn would come too late"
		if got, want := errtext.Of(err), "guard: errtext_test.slow: "+text; got != want {
			t.Errorf("Of = %q, want %q", got, want)
		}
		if got, want := errtext.Of(fmt.Errorf("model: %w", e.Cause)), "model: "+text; got != want {
			t.Errorf("Of = %q, want %q", got, want)
		}
		if got, want := ofRun(retry.ReasonGuard, err), "guard: errtext_test.slow: "+text; got != want {
			t.Errorf("of the run: %q, want %q", got, want)
		}
	}
}

// What a guard has ended is not described as what attempts had failed with before.
func TestGuardGoesFirst(t *testing.T) {
	var g lastly
	p := retry.Policy{Backoff: retry.Constant(0), Guards: []retry.Guard{&g}}
	err := retry.Run(t.Context(), p, func(context.Context) error { return errors.New("connection refused") })
	if got, want := errtext.Of(err), "guard: errtext_test.lastly: quota used up; attempts failed with: connection refused"; got != want {
		t.Errorf("Of = %q, want %q", got, want)
	}
	if got, want := errtext.Of(fmt.Errorf("outer: %w", err)), "outer: guard: errtext_test.lastly: quota used up; attempts failed with: connection refused"; got != want {
		t.Errorf("Of = %q, want %q", got, want)
	}
}

// lastly admits one attempt.
type lastly int

func (l *lastly) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	if *l++; *l > 1 {
		return retry.Pass{}, retry.Stop(errors.New("quota used up"))
	}
	return retry.Pass{}, nil
}
func (*lastly) Leave(retry.Pass, retry.Exit) {}

func succeed(context.Context) error { return nil }

// counted counts the calls of its methods, and hides nothing but has an As that
// looks through what it wraps.
type counted struct {
	error
	calls *int
}

func (c counted) Error() string { *c.calls++; return "counted: " + c.error.Error() }
func (c counted) Unwrap() error { *c.calls++; return c.error }
func (c counted) As(target any) bool {
	*c.calls++
	return errors.As(c.error, target)
}

func TestNestedRuns(t *testing.T) {
	var calls int
	nested := func(depth int) error {
		var err error = errDown
		for range depth {
			err = counted{&retry.Error{Reason: retry.ReasonBudget, Attempts: 2, Errs: []error{errDown, err}}, &calls}
		}
		return err
	}
	for depth := range 16 {
		want := strings.Repeat("counted: budget: ", depth) + "connection refused"
		if got := errtext.Of(nested(depth)); got != want {
			t.Fatalf("%d runs: %q, want %q", depth, got, want)
		}
	}
	want := strings.Repeat("counted: budget: ", 16) + "counted: budget"
	for _, depth := range []int{17, 100} {
		if got := errtext.Of(nested(depth)); got != want {
			t.Errorf("%d runs: %q, want %q", depth, got, want)
		}
	}
	called := func(depth int) int {
		calls = 0
		errtext.Of(nested(depth))
		return calls
	}
	for depth := 1; depth <= 64; depth *= 2 {
		if once, twice := called(depth), called(2*depth); twice > 5*once {
			t.Errorf("%d calls of methods for %d runs, %d for %d", once, depth, twice, 2*depth)
		}
	}

	var joined []error
	for range 20 {
		joined = append(joined, &retry.Error{Reason: retry.ReasonBudget, Attempts: 1, Errs: []error{errDown}})
	}
	want = strings.Repeat("budget: connection refused\n", 16) + "budget\nbudget\nbudget\nbudget"
	for i := range joined { // else their texts are equal, and the first one's description is that of all
		joined[i].(*retry.Error).Name = fmt.Sprintf("run%02d", i)
	}
	if got := errtext.Of(errors.Join(joined...)); got != want {
		t.Errorf("20 joined runs: %q, want %q", got, want)
	}
}

// cyclic shows a run by As that it is itself an error of.
type cyclic struct {
	run   *retry.Error
	calls int
}

func (c *cyclic) Error() string { return "cyclic" }
func (c *cyclic) As(target any) bool {
	c.calls++
	e, ok := target.(**retry.Error)
	if ok {
		*e = c.run
	}
	return ok
}

func TestLargeTreesAreShownByTheirType(t *testing.T) {
	chain := func(n int, err error) error {
		for range n - 1 {
			err = opaque{err}
		}
		return err
	}
	if got, want := errtext.Of(chain(1000, errDown)), strings.Repeat("opaque: ", 999)+"connection refused"; got != want {
		t.Errorf("1 000 errors: %q", got)
	}
	const want = "errtext_test.opaque"
	if got := errtext.Of(chain(1001, errDown)); got != want {
		t.Errorf("1 001 errors: %q, want %q", got, want)
	}
	if got := errtext.Of(chain(1e5, errDown)); got != want {
		t.Errorf("100 000 errors: %q, want %q", got, want)
	}
	doubled := errDown // 2^60 ways through 60 errors: their text would never end
	for range 60 {
		doubled = joined{doubled, doubled}
	}
	if got, want := errtext.Of(opaque{doubled}), "errtext_test.opaque"; got != want {
		t.Errorf("many ways: %q, want %q", got, want)
	}
	if got, want := ofRun(retry.ReasonBudget, &retry.Error{Errs: []error{doubled}}), "budget: errtext_test.joined"; got != want {
		t.Errorf("many ways: %q, want %q", got, want)
	}
	c := &cyclic{run: &retry.Error{Reason: retry.ReasonBudget, Attempts: 1}}
	c.run.Errs = []error{c}
	if got := errtext.Of(c); got != "cyclic" || c.calls > 4 { // for two types, and once more in the run
		t.Errorf("cyclic: %q after %d calls of As", got, c.calls)
	}
	self := &looped{}
	if got, want := errtext.Of(self), "*errtext_test.looped"; got != want {
		t.Errorf("a loop: %q, want %q", got, want)
	}
}

// joined and looped have texts that take for ever.
type joined []error

func (j joined) Error() string   { return errors.Join(j...).Error() }
func (j joined) Unwrap() []error { return j }

type looped struct{}

func (l *looped) Error() string { panic("without end") }
func (l *looped) Unwrap() error { return l }

// A text and what is looked for in it may be chosen by an attacker, so that they
// nearly fit at each byte. By trying them one after the other this takes minutes.
func TestTimeDoesNotDependOnTheTexts(t *testing.T) {
	secret := strings.Repeat("h", 1<<20) + "?secret"
	took := func(text string) time.Duration {
		best := time.Duration(1<<63 - 1)
		for range 3 {
			begin := time.Now()
			got := errtext.Of(fmt.Errorf("%s: %w", text, &url.Error{Op: "Get", URL: secret, Err: errDown}))
			best = min(best, time.Since(begin))
			if strings.Contains(got, "secret") || !strings.HasPrefix(got, text[:100]) {
				t.Fatalf("shown: %.100q", got)
			}
		}
		return best
	}
	easy, hard := took(strings.Repeat("x", 1<<20)), took(strings.Repeat("h", 1<<20))
	if os.Getenv("RETRY_LONG") == "1" && hard > 20*easy+time.Second {
		t.Errorf("%v, and %v for a text that nearly fits", easy, hard)
	}
	if got := errtext.Of(manyURLs(200)); strings.Contains(got, "secret") || !strings.HasPrefix(got, `Get "/0hhh`) {
		t.Errorf("200 URLs of 1 KiB: %.200q", got)
	}
}

func TestTooManyURLsAreShownByTheirType(t *testing.T) {
	if got, want := errtext.Of(manyURLs(400)), "*errors.joinError"; got != want { // which a tree of 801 errors alone is not
		t.Errorf("400 URLs of 1 KiB: %.200q, want %q", got, want)
	}
}

// manyURLs returns an error with so many URLs of 1 KiB.
func manyURLs(n int) error {
	var many []error
	for i := range n {
		many = append(many, &url.Error{Op: "Get", URL: fmt.Sprintf("/%d%s?secret", i, strings.Repeat("h", 1<<10)), Err: errDown})
	}
	return errors.Join(many...)
}

// broken panics in each of its methods.
type broken struct{}

func (*broken) Error() string     { panic("Error") }
func (*broken) Unwrap() error     { panic("Unwrap") }
func (*broken) As(any) bool       { panic("As") }
func (*broken) Is(error) bool     { panic("Is") }
func (*broken) ErrorType() string { panic("ErrorType") }

// lost panics in Error alone.
type lost struct{ error }

func (lost) Error() string { panic("Error") }

// strict needs a receiver.
type strict struct{ text string }

func (s *strict) Error() string     { return s.text }
func (s *strict) Unwrap() error     { return errors.New(s.text) }
func (s *strict) As(any) bool       { return s.text != "" }
func (s *strict) ErrorType() string { return s.text }

func TestPanicsAndNilPointers(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{&broken{}, "*errtext_test.broken: a method of it panics"},
		{lost{errDown}, "errtext_test.lost: a method of it panics"},
		{fmt.Errorf("a: %w", lost{errDown}), "a: %!v(PANIC=Error method: Error)"},
		{opaque{&broken{}}, "errtext_test.opaque: a method of it panics"},
		{(*strict)(nil), "*errtext_test.strict: a method of it panics"},
		{fmt.Errorf("a: %w", (*strict)(nil)), "a: <nil>"},
		{errors.Join(errDown, (*strict)(nil)), "*errors.joinError: a method of it panics"},
		{(*url.Error)(nil), "*url.Error: a method of it panics"},
		{fmt.Errorf("a: %w", (*url.Error)(nil)), "a: <nil>"},
		{(*retry.Error)(nil), "retry: nil *Error"},
		{errors.Join(errDown, (*retry.Error)(nil)), "connection refused\nretry: nil *Error"},
		{hiding{[]error{(*retry.Error)(nil)}}, "retry: nil *Error"},
		{&url.Error{Op: "Get", URL: "http://h?secret"}, `Get "http://h": %!s(<nil>)`},
		{&retry.Error{Reason: retry.ReasonBudget, Attempts: 1, Errs: []error{(*strict)(nil)}}, "*retry.Error: a method of it panics"},
	} {
		if got := errtext.Of(tt.err); got != tt.want {
			t.Errorf("Of(%T) = %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestPlainErrorsCostNoAllocation(t *testing.T) {
	wrapped := fmt.Errorf("load: %w", errDown)
	if got := testing.AllocsPerRun(100, func() { errtext.Of(wrapped) }); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

// ofRun returns the text of err, the error of a run, as if that had ended for reason.
func ofRun(reason retry.Reason, err error) string {
	if e, ok := err.(*retry.Error); ok && e != nil {
		run := *e
		run.Reason = reason
		return errtext.Of(&run)
	}
	return reason.String()
}
