package retry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/race"
)

// Errors as clients have them: their fields say what they are.
type (
	Number    int
	StatusErr struct{ StatusCode int }
	Pointer   struct{ HTTPStatusCode *int }
	Upper     struct{ HttpStatusCode int32 }
	Short     struct{ HTTPStatus uint16 }
	Code      struct{ HTTPCode Number }
	Response  struct{ Anything *http.Response }
	Two       struct {
		First, Second *http.Response
		StatusCode    int
	}
	Headers struct {
		StatusCode      int
		ResponseHeaders http.Header
	}
	HeaderAlone struct{ Header http.Header }
	After       struct {
		StatusCode int
		RetryAfter time.Duration
	}
	AfterPointer struct {
		StatusCode int
		RetryAfter *time.Duration
	}
	AfterSeconds struct {
		StatusCode        int
		RetryAfterSeconds uint64
		Header            http.Header
	}
	AfterNumber struct {
		StatusCode int
		RetryAfter Number
	}
	AfterAlone struct{ RetryAfterSeconds int64 }
	AfterMs    struct{ RetryAfterMs *int64 }
	AfterBare  struct{ RetryAfter *int64 }
	Text       struct{ StatusCode string }
	Validation struct {
		Code   int
		Status int
	}
	// As gophercloud has it, and mailgun-go.
	Unexpected struct {
		Expected []int
		Actual   int
		Header   http.Header
	}
	Counted        struct{ Actual, Expected int }
	hidden         struct{ statusCode int }
	Any            struct{ StatusCode any }
	deep           struct{ StatusErr }
	Deeper         struct{ *deep }
	Cyclic         struct{ *Cyclic }
	Generic[T any] struct {
		Value      T
		StatusCode int
	}
)

func (StatusErr) Error() string    { return "x" }
func (Pointer) Error() string      { return "x" }
func (Upper) Error() string        { return "x" }
func (Short) Error() string        { return "x" }
func (Code) Error() string         { return "x" }
func (Response) Error() string     { return "x" }
func (Two) Error() string          { return "x" }
func (Headers) Error() string      { return "x" }
func (HeaderAlone) Error() string  { return "x" }
func (After) Error() string        { return "x" }
func (AfterPointer) Error() string { return "x" }
func (AfterSeconds) Error() string { return "x" }
func (AfterNumber) Error() string  { return "x" }
func (AfterAlone) Error() string   { return "x" }
func (AfterMs) Error() string      { return "x" }
func (AfterBare) Error() string    { return "x" }
func (Text) Error() string         { return "x" }
func (Validation) Error() string   { return "x" }
func (Unexpected) Error() string   { return "x" }
func (Counted) Error() string      { return "x" }
func (hidden) Error() string       { return "x" }
func (Any) Error() string          { return "x" }
func (Deeper) Error() string       { return "x" }
func (*Cyclic) Error() string      { return "x" }
func (Generic[T]) Error() string   { return "x" }

// decodeError is one of a client that could not read the body of a response.
type decodeError struct {
	HTTPStatusCode int
	Response       *http.Response
	Err            error
}

func (e *decodeError) Error() string { return "decode: " + e.Err.Error() }
func (e *decodeError) Unwrap() error { return e.Err }

// embeds has its status in what it embeds, by a pointer that may be nil.
type embeds struct {
	*http.Response
	name string
}

func (embeds) Error() string { return "x" }

// bothSay has a method that says another thing than its field.
type bothSay struct{ StatusCode int }

func (bothSay) Error() string   { return "x" }
func (bothSay) Retryable() bool { return true }

// Docker's and containerd's errors say what they are by having a method.
type (
	byUnavailable        struct{}
	bySystem             struct{}
	byDeadline           struct{}
	byExhausted          struct{}
	byNotFound           struct{}
	byInvalidParameter   struct{}
	byConflict           struct{}
	byAlreadyExists      struct{}
	byUnauthorized       struct{}
	byForbidden          struct{}
	byFailedPrecondition struct{}
	byOutOfRange         struct{}
	byNotImplemented     struct{}
	byDataLoss           struct{}
	byOther              struct{}
)

func (byUnavailable) Error() string          { return "x" }
func (byUnavailable) Unavailable()           { panic("called") }
func (bySystem) Error() string               { return "x" }
func (bySystem) System()                     {}
func (byDeadline) Error() string             { return "x" }
func (byDeadline) DeadlineExceeded()         {}
func (byExhausted) Error() string            { return "x" }
func (byExhausted) ResourceExhausted()       {}
func (byNotFound) Error() string             { return "x" }
func (byNotFound) NotFound()                 {}
func (byInvalidParameter) Error() string     { return "x" }
func (byInvalidParameter) InvalidParameter() {}
func (byConflict) Error() string             { return "x" }
func (byConflict) Conflict()                 {}
func (byAlreadyExists) Error() string        { return "x" }
func (byAlreadyExists) AlreadyExists()       {}
func (byUnauthorized) Error() string         { return "x" }
func (byUnauthorized) Unauthorized()         {}
func (byForbidden) Error() string            { return "x" }
func (byForbidden) Forbidden()               {}
func (byFailedPrecondition) Error() string   { return "x" }
func (byFailedPrecondition) FailedPrecondition() {
}
func (byOutOfRange) Error() string     { return "x" }
func (byOutOfRange) OutOfRange()       {}
func (byNotImplemented) Error() string { return "x" }
func (byNotImplemented) NotImplemented() {
}
func (byDataLoss) Error() string    { return "x" }
func (byDataLoss) DataLoss()        {}
func (byOther) Error() string       { return "x" }
func (byOther) NotFound() bool      { return true }
func (byOther) Conflict(int)        {}
func (byOther) Unavailable() string { return "" }

func TestFieldsOfErrors(t *testing.T) {
	status, second, ms, centuries := 503, time.Second, int64(2000), int64(math.MaxInt64)
	header := http.Header{"Retry-After": {"7"}}
	limit := http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"9"}}
	over := http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"0"}}
	resp := func(code int, h http.Header) *http.Response { return &http.Response{StatusCode: code, Header: h} }
	const unknown, permanent, transient, timedOut, throttled, unprocessed = retry.Unknown, retry.Permanent, retry.Transient, retry.TimedOut,
		retry.Throttled, retry.Unprocessed
	for _, tt := range []struct {
		name string
		err  error
		want retry.Class
		hint time.Duration
	}{
		{"a status", StatusErr{404}, permanent, 0},
		{"a status behind a pointer", &StatusErr{500}, transient, 0},
		{"408", &StatusErr{408}, transient, 0},
		{"421", &StatusErr{421}, unprocessed, 0},
		{"429", &StatusErr{429}, throttled, 0},
		{"501", &StatusErr{501}, permanent, 0},
		{"504", &StatusErr{504}, timedOut, 0},
		{"590", &StatusErr{590}, unknown, 0},
		{"200", &StatusErr{200}, unknown, 0},
		{"600", &StatusErr{600}, unknown, 0},
		{"a pointer to a status", Pointer{&status}, transient, 0},
		{"a nil pointer to a status", Pointer{}, unknown, 0},
		{"HttpStatusCode", Upper{503}, transient, 0},
		{"HTTPStatus", Short{503}, transient, 0},
		{"HTTPCode of a named type", Code{503}, transient, 0},
		{"a response", Response{resp(429, header)}, throttled, 7 * second},
		{"a 503 with a hint", Response{resp(503, header)}, transient, 7 * second},
		{"a 503 with a limit", Response{resp(503, limit)}, transient, 0},
		{"a 403 with a limit", Response{resp(403, limit)}, throttled, 9 * second},
		{"a 403 with a limit that is reset now", Response{resp(403, over)}, throttled, 0},
		{"a 403", Response{resp(403, nil)}, permanent, 0},
		{"no response", Response{}, unknown, 0},
		{"a response of 200", Response{resp(200, header)}, unknown, 0},
		{"the status goes before the response's", Two{resp(404, nil), nil, 503}, transient, 0},
		{"the first response that is there", Two{nil, resp(404, nil), 0}, permanent, 0},
		{"a header", Headers{429, header}, throttled, 7 * second},
		{"a header without a status", HeaderAlone{header}, unknown, 0},
		{"a wait", After{503, 2 * second}, transient, 2 * second},
		{"a wait of nothing", After{429, 0}, throttled, 0},
		{"a negative wait", After{429, -1}, throttled, 0},
		{"a pointer to a wait", AfterPointer{429, &second}, throttled, second},
		{"a nil pointer to a wait", AfterPointer{429, nil}, throttled, 0},
		{"seconds", AfterSeconds{429, 3, header}, throttled, 3 * second},
		{"no seconds, but a header", AfterSeconds{429, 0, header}, throttled, 7 * second},
		{"too many seconds", AfterSeconds{429, math.MaxUint64, nil}, throttled, math.MaxInt64},
		{"a number of who knows what", AfterNumber{429, 3}, throttled, 0},
		{"a wait alone", AfterAlone{3}, transient, 3 * second},
		{"milliseconds", AfterMs{&ms}, transient, 2 * second},
		{"too many milliseconds", AfterMs{&centuries}, transient, math.MaxInt64 / 1_000_000 * 1_000_000},
		{"a number without a unit", AfterBare{&ms}, unknown, 0},
		{"a text", Text{"503"}, unknown, 0},
		{"Code and Status of a validation error", Validation{404, 404}, unknown, 0},
		{"Actual beside what was expected", &Unexpected{[]int{200}, 404, nil}, permanent, 0},
		{"Actual with a header", &Unexpected{[]int{200, 202}, 429, header}, throttled, 7 * second},
		{"Actual that counts", Counted{404, 200}, unknown, 0},
		{"an unexported field", hidden{404}, unknown, 0},
		{"an interface", Any{404}, unknown, 0},
		{"embedded", &Deeper{&deep{StatusErr{404}}}, permanent, 0},
		{"embedded, a nil pointer on the way", &Deeper{}, unknown, 0},
		{"an embedded response", embeds{resp(429, header), ""}, throttled, 7 * second},
		{"no embedded response", &embeds{}, unknown, 0},
		{"a cyclic struct", &Cyclic{&Cyclic{}}, unknown, 0},
		{"a type with type parameters", &Generic[string]{StatusCode: 404}, permanent, 0},
		{"a nil pointer", (*StatusErr)(nil), unknown, 0},

		{"an outer status and an inner cause", &decodeError{502, nil, &json.SyntaxError{}}, transient, 0},
		{"an outer status and an error number", &decodeError{502, nil, syscall.ENOENT}, transient, 0},
		{"a response of 200 around a decode error", &decodeError{0, resp(200, header), &json.SyntaxError{}}, permanent, 0},
		{"what wraps it", fmt.Errorf("x: %w", Response{resp(429, header)}), throttled, 7 * second},
		{"a method goes before a field", bothSay{404}, transient, 0},
		{"below an *Error", &retry.Error{Reason: retry.ReasonRetryAfter, Attempts: 1, Errs: []error{Response{resp(429, header)}}}, throttled, 7 * second},
		{"in a run behind As", multi(&retry.Error{Attempts: 1, Errs: []error{After{503, second}}}), transient, second},
		{"below a *url.Error", &url.Error{Op: "Get", Err: Response{resp(404, header)}}, unknown, 0},
		{"below a *fs.PathError", &fs.PathError{Op: "read", Err: StatusErr{404}}, unknown, 0},
		{"below an *os.SyscallError", os.NewSyscallError("read", StatusErr{404}), unknown, 0},
		{"below a failed dial", &net.OpError{Op: "dial", Err: StatusErr{404}}, unprocessed, 0},
		{"a hint below a *net.OpError", &net.OpError{Op: "read", Err: Response{resp(429, header)}}, unknown, 0},
		{"a hint below a *fs.PathError", &fs.PathError{Err: Response{resp(429, header)}}, unknown, 0},
		{"a reply of SMTP", &textproto.Error{Code: 421}, transient, 0},
		{"another reply of SMTP", fmt.Errorf("x: %w", &textproto.Error{Code: 550}), permanent, 0},
		{"joined", errors.Join(StatusErr{404}, syscall.ECONNREFUSED), permanent, 0},

		{"Unavailable", byUnavailable{}, transient, 0},
		{"System", bySystem{}, transient, 0},
		{"DeadlineExceeded", byDeadline{}, timedOut, 0},
		{"ResourceExhausted", byExhausted{}, throttled, 0},
		{"NotFound", byNotFound{}, permanent, 0},
		{"InvalidParameter", byInvalidParameter{}, permanent, 0},
		{"Conflict", byConflict{}, permanent, 0},
		{"AlreadyExists", byAlreadyExists{}, permanent, 0},
		{"Unauthorized", byUnauthorized{}, permanent, 0},
		{"Forbidden", byForbidden{}, permanent, 0},
		{"FailedPrecondition", byFailedPrecondition{}, permanent, 0},
		{"OutOfRange", byOutOfRange{}, permanent, 0},
		{"NotImplemented", byNotImplemented{}, permanent, 0},
		{"DataLoss", byDataLoss{}, permanent, 0},
		{"methods with parameters or results", byOther{}, unknown, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // what is known of a type is looked up once
				if got := retry.DefaultClassifier(tt.err); got != tt.want {
					t.Errorf("DefaultClassifier: %v, want %v", got, tt.want)
				}
			}
			want := tt.want
			if want == unknown {
				want = transient
			}
			if v := (retry.Policy{}).Judge(tt.err); v.Class != want || v.Hint != tt.hint {
				t.Errorf("Judge: %v, %v, want %v, %v", v.Class, v.Hint, want, tt.hint)
			}
		})
	}
}

// judgedAsEver is for trees of errors that have no fields to be read: that fields are
// read must not change what the trees mean.
func judgedAsEver(t *testing.T, err error) {
	t.Helper()
	if retry.FieldsMatter(err) {
		t.Errorf("fields of %T(%v) change its class", err, err)
	}
}

// A server that does not serve a request has done nothing. One that is too busy may
// have done a part, whether it names a wait or not.
func TestFieldsAsEvidence(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		repeats bool
	}{
		{"a status of 421", StatusErr{421}, true},
		{"429 with a hint", Response{&http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"1"}}}}, false},
		{"429", StatusErr{429}, false},
		{"503 with a hint", After{503, time.Second}, false},
	} {
		loop := retry.Policy{NonIdempotent: true, Classify: retry.DefaultClassifier, Backoff: retry.Constant(0)}.Start(time.Time{})
		if _, again := loop.Next(time.Time{}, tt.err); again != tt.repeats {
			t.Errorf("%s: repeated: %v, want %v", tt.name, again, tt.repeats)
		}
	}
}

// What the headers of an error say about a retry overrules its status, as in a Transport.
func TestWordsInHeaders(t *testing.T) {
	for _, tt := range []struct {
		header http.Header
		status int
		class  retry.Class
		reason retry.Reason
	}{
		{http.Header{"X-Should-Retry": {"false"}}, 503, retry.Permanent, retry.ReasonRefused},
		{http.Header{"X-Should-Retry": {"false"}, "Retry-After": {"9"}}, 429, retry.Permanent, retry.ReasonRefused},
		{http.Header{"X-Should-Retry": {"false"}}, 404, retry.Permanent, retry.ReasonPermanent},
		{http.Header{"X-Should-Retry": {"true"}}, 404, retry.Transient, retry.ReasonNone},
		{http.Header{"X-Should-Retry": {"true"}}, 429, retry.Throttled, retry.ReasonNone},
		{http.Header{"X-Should-Retry": {"perhaps"}}, 503, retry.Transient, retry.ReasonNone},
		{http.Header{"Stripe-Should-Retry": {"true"}}, 409, retry.Transient, retry.ReasonNone},
		{http.Header{"X-Envoy-Overloaded": {"true"}}, 503, retry.Permanent, retry.ReasonRefused},
	} {
		for _, err := range []error{
			&Headers{StatusCode: tt.status, ResponseHeaders: tt.header},
			&Response{&http.Response{StatusCode: tt.status, Header: tt.header}},
			&AfterSeconds{StatusCode: tt.status, RetryAfterSeconds: 5, Header: tt.header},
			errors.Join(errors.New("a"), &Response{&http.Response{StatusCode: tt.status, Header: tt.header}}),
		} {
			v := retry.Policy{}.Judge(fmt.Errorf("load: %w", err))
			if ends := (retry.Policy{}).Ends(v); v.Class != tt.class || ends != tt.reason {
				t.Errorf("%T with status %d and %v is %v and ends by %v, want %v and %v", err, tt.status, tt.header, v.Class, ends, tt.class, tt.reason)
			}
			if got, want := retry.Final(err), tt.reason == retry.ReasonRefused; got != want {
				t.Errorf("%T with status %d and %v: Final is %t", err, tt.status, tt.header, got)
			}
		}
	}
	// Policy.Classify and marks go first.
	refused := &Headers{StatusCode: 503, ResponseHeaders: http.Header{"X-Should-Retry": {"false"}}}
	p := retry.Policy{Classify: func(error) retry.Class { return retry.Transient }}
	if ends := p.Ends(p.Judge(refused)); ends != retry.ReasonNone {
		t.Errorf("with a Classify that says Transient it ends by %v", ends)
	}
	if ends := p.Ends(p.Judge(retry.After(refused, 1))); ends != retry.ReasonNone {
		t.Errorf("marked by After it ends by %v", ends)
	}
	if ends := (retry.Policy{}).Ends(retry.Policy{}.Judge(retry.Stop(refused))); ends != retry.ReasonPermanent {
		t.Errorf("marked by Stop it ends by %v", ends)
	}
}

func TestFieldsAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	for name, err := range map[string]error{
		"status":      &StatusErr{503},
		"value":       StatusErr{503},
		"seconds":     &AfterSeconds{429, 3, nil},
		"header":      &Headers{429, http.Header{"Retry-After": {"7"}}},
		"no hint":     &Headers{429, http.Header{"Content-Type": {"text/html"}}},
		"response":    &Response{&http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"7"}}}},
		"SMTP's code": &textproto.Error{Code: 421},
		"a method":    byNotFound{},
	} {
		if n := testing.AllocsPerRun(100, func() { retry.Policy{}.Judge(err) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// What fields say costs at most five times what a method does, and ten times with a
// Retry-After to be read.
func TestFieldsCostLittle(t *testing.T) {
	if race.Enabled || !longTests {
		t.Skip("a comparison of times, which the race detector changes: RETRY_LONG=1 runs it")
	}
	cost := func(err error) time.Duration {
		start := time.Now()
		for range 5_000 {
			retry.Policy{}.Judge(err)
		}
		return time.Since(start)
	}
	header := http.Header{"Retry-After": {"7"}, "Date": {"Sun, 06 Nov 1994 08:49:37 GMT"}, "Content-Type": {"text/plain"}}
	for _, tt := range []struct {
		name           string
		method, fields error
		most           float64
	}{
		{"a status", status(503), &StatusErr{503}, 5},
		{"a response with a hint", busy{429}, &Response{&http.Response{StatusCode: 429, Header: header}}, 10},
	} {
		method, fields := cost(tt.method), cost(tt.fields)
		for range 20 { // the least of each counts: others use the processor too
			method, fields = min(method, cost(tt.method)), min(fields, cost(tt.fields))
		}
		times := float64(fields) / float64(method)
		if t.Logf("%s: %.1f times a method", tt.name, times); times > tt.most {
			t.Errorf("%s: %.1f times a method, want at most %v", tt.name, times, tt.most)
		}
	}
}

// A small program stays small, and links neither net, database/sql nor the system's C library. README.md
// says what it grows by.
func TestSmallProgram(t *testing.T) {
	if runtime.GOOS == "wasip1" {
		t.Skip("it has no processes")
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(tmp, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = tmp, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	size := func(program, flags string) int64 {
		run("build", "-ldflags="+flags, "-o", "small", program)
		info, err := os.Stat(filepath.Join(tmp, "small"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	write("go.mod", "module small\n\ngo 1.26\n\nrequire github.com/goretry/retry v0.0.0\n\nreplace github.com/goretry/retry => "+root+"\n")
	const program = `package main

import (
	"context"
	"fmt"
	%s
)

func hello(context.Context) (string, error) { return "hello", nil }

func main() { fmt.Println(%s) }
`
	write("without/main.go", fmt.Sprintf(program, "", "hello(context.Background())"))
	write("with/main.go", fmt.Sprintf(program, `"github.com/goretry/retry"`, "retry.Do(context.Background(), retry.Policy{}, hello)"))
	for _, pkg := range strings.Fields(run("list", "-deps", "./with")) {
		switch pkg {
		case "net", "net/url", "net/http", "database/sql", "crypto/tls", "runtime/cgo": // net links to the system's C library
			t.Errorf("a small program links %s", pkg)
		}
	}
	if !longTests {
		t.Skip("knows what a small program links; RETRY_LONG=1 measures it")
	}
	for flags, most := range map[string]int64{"": 920_000, "-s -w": 630_000} {
		if grown := size("./with", flags) - size("./without", flags); grown > most {
			t.Errorf("with the flags %q a program grows by %d bytes, want at most %d", flags, grown, most)
		} else {
			t.Logf("flags %q: %d bytes", flags, grown)
		}
	}
}
