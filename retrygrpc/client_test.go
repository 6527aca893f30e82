package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrygrpc"
	"github.com/goretry/retry/retrytest"
)

// TestCalls is the table of the documentation: how often a server sees a call whose
// method may run twice, and one whose method may not, and what the caller gets.
func TestCalls(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		answer               handler
		code                 codes.Code
		idempotent, not      int
		reason, reasonForNot string
	}{
		{"UNAVAILABLE", always(fail(codes.Unavailable)), codes.Unavailable, 4, 1, "max_attempts", "not_idempotent"},
		{"DEADLINE_EXCEEDED", always(fail(codes.DeadlineExceeded)), codes.DeadlineExceeded, 4, 1, "max_attempts", "not_idempotent"},
		{"RESOURCE_EXHAUSTED", always(fail(codes.ResourceExhausted)), codes.ResourceExhausted, 4, 1, "max_attempts", "not_idempotent"},
		{"RESOURCE_EXHAUSTED after SendHeader", func(_ int, s grpc.ServerStream, _ string) error {
			return errors.Join(s.SendHeader(nil), fail(codes.ResourceExhausted))
		}, codes.ResourceExhausted, 1, 1, "bare", "bare"},
		{"UNAVAILABLE after SendHeader", func(_ int, s grpc.ServerStream, _ string) error {
			if err := s.SendHeader(metadata.Pairs("request-id", "7")); err != nil {
				return err
			}
			return fail(codes.Unavailable)
		}, codes.Unavailable, 4, 1, "max_attempts", "not_idempotent"},
		{"UNAVAILABLE with RetryInfo", always(hinted(codes.Unavailable, time.Millisecond)), codes.Unavailable, 4, 4, "max_attempts", "max_attempts"},
		{"RESOURCE_EXHAUSTED with RetryInfo", always(hinted(codes.ResourceExhausted, time.Millisecond)), codes.ResourceExhausted, 4, 4, "max_attempts", "max_attempts"},
		{"RESOURCE_EXHAUSTED after SendHeader with RetryInfo", func(_ int, s grpc.ServerStream, _ string) error {
			if err := s.SendHeader(nil); err != nil {
				return err
			}
			return hinted(codes.ResourceExhausted, time.Millisecond)
		}, codes.ResourceExhausted, 4, 4, "max_attempts", "max_attempts"},
		{"ABORTED with RetryInfo", always(hinted(codes.Aborted, time.Millisecond)), codes.Aborted, 4, 4, "max_attempts", "max_attempts"},
		{"INTERNAL with RetryInfo", always(hinted(codes.Internal, time.Millisecond)), codes.Internal, 4, 1, "max_attempts", "not_idempotent"},
		{"UNKNOWN with RetryInfo", always(hinted(codes.Unknown, time.Millisecond)), codes.Unknown, 4, 1, "max_attempts", "not_idempotent"},
		{"NOT_FOUND with RetryInfo", always(hinted(codes.NotFound, time.Millisecond)), codes.NotFound, 1, 1, "bare", "bare"},
		{"UNAVAILABLE with RetryInfo of 0", always(hinted(codes.Unavailable, 0)), codes.Unavailable, 4, 1, "max_attempts", "not_idempotent"},
		{"UNAVAILABLE with a negative RetryInfo", always(hinted(codes.Unavailable, -time.Second)), codes.Unavailable, 4, 1, "max_attempts", "not_idempotent"},
		{"UNAVAILABLE with RetryInfo of an hour", always(hinted(codes.Unavailable, time.Hour)), codes.Unavailable, 1, 1, "retry_after", "retry_after"},
		{"ABORTED", always(fail(codes.Aborted)), codes.Aborted, 1, 1, "bare", "bare"},
		{"INTERNAL", always(fail(codes.Internal)), codes.Internal, 1, 1, "bare", "bare"},
		{"UNKNOWN", always(fail(codes.Unknown)), codes.Unknown, 1, 1, "bare", "bare"},
		{"CANCELLED", always(fail(codes.Canceled)), codes.Canceled, 1, 1, "bare", "bare"},
		{"NOT_FOUND", always(fail(codes.NotFound)), codes.NotFound, 1, 1, "bare", "bare"},
		{"a code that nobody knows", always(fail(codes.Code(99))), codes.Code(99), 1, 1, "bare", "bare"},
		{"a plain Go error", always(errors.New("oops")), codes.Unknown, 1, 1, "bare", "bare"},
		{"a text that says REFUSED_STREAM", always(status.Error(codes.Unavailable,
			"stream terminated by RST_STREAM with error code: REFUSED_STREAM")), codes.Unavailable, 4, 1, "max_attempts", "not_idempotent"},
		{"pushback of 1", pushing(codes.Unavailable, "1"), codes.Unavailable, 4, 4, "max_attempts", "max_attempts"},
		{"pushback of 0", pushing(codes.Unavailable, "0"), codes.Unavailable, 4, 4, "max_attempts", "max_attempts"},
		{"pushback of 0 with ABORTED", pushing(codes.Aborted, "0"), codes.Aborted, 4, 4, "max_attempts", "max_attempts"},
		{"pushback of 0 with RESOURCE_EXHAUSTED", pushing(codes.ResourceExhausted, "0"), codes.ResourceExhausted, 4, 4, "max_attempts", "max_attempts"},
		{"pushback of 0 with INTERNAL", pushing(codes.Internal, "0"), codes.Internal, 1, 1, "bare", "bare"},
		{"pushback of 0 with DEADLINE_EXCEEDED", pushing(codes.DeadlineExceeded, "0"), codes.DeadlineExceeded, 4, 1, "max_attempts", "not_idempotent"},
		{"pushback of 1 with NOT_FOUND", pushing(codes.NotFound, "1"), codes.NotFound, 1, 1, "bare", "bare"},
		{"pushback of -1", pushing(codes.Unavailable, "-1"), codes.Unavailable, 1, 1, "bare", "bare"},
		{"pushback of xxx", pushing(codes.Unavailable, "xxx"), codes.Unavailable, 1, 1, "bare", "bare"},
		{"an empty pushback", pushing(codes.Unavailable, ""), codes.Unavailable, 1, 1, "bare", "bare"},
		{"two pushbacks", pushing(codes.Unavailable, "1", "1"), codes.Unavailable, 1, 1, "bare", "bare"},
		{"pushback of 9223372036854775807", pushing(codes.Unavailable, "9223372036854775807"), codes.Unavailable, 1, 1, "retry_after", "retry_after"},
		{"pushback of 9223372036854775808", pushing(codes.Unavailable, "9223372036854775808"), codes.Unavailable, 1, 1, "bare", "bare"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()})
			for method, want := range map[string]struct {
				calls  int
				reason string
			}{get: {tt.idempotent, tt.reason}, pay: {tt.not, tt.reasonForNot}} {
				before := s.calls()
				_, err := call(within(t), cc, method)
				if got := s.calls() - before; got != want.calls {
					t.Errorf("%s: the server saw %d calls, want %d", method, got, want.calls)
				}
				if got := reason(err); got != want.reason {
					t.Errorf("%s: error = %v: %s, want %s", method, err, got, want.reason)
				}
				if got := status.Code(err); got != tt.code {
					t.Errorf("%s: code = %v, want %v", method, got, tt.code)
				}
			}
		})
	}
}

// TestHints: what the server asks for is what is waited, the larger of two hints. After 0 the
// backoff does not count either.
func TestHints(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer handler
		method string
		class  retry.Class
		hint   time.Duration // −1: at once
	}{
		{"none", always(fail(codes.Unavailable)), get, retry.Transient, 0},
		{"RetryInfo", always(hinted(codes.Unavailable, 3*time.Second)), pay, retry.Throttled, 3 * time.Second},
		{"RetryInfo of 0", always(hinted(codes.Unavailable, 0)), get, retry.Transient, -1},
		{"RetryInfo below 0", always(hinted(codes.Unavailable, -1)), get, retry.Transient, 0},
		{"RetryInfo of 0 with DEADLINE_EXCEEDED", always(hinted(codes.DeadlineExceeded, 0)), get, retry.TimedOut, -1},
		{"RetryInfo that is empty", always(emptyInfo(codes.Unavailable)), get, retry.Transient, 0},
		{"pushback", pushing(codes.Unavailable, "1500"), pay, retry.Throttled, 1500 * time.Millisecond},
		{"pushback of 0", pushing(codes.Unavailable, "0"), pay, retry.Unprocessed, -1},
		{"pushback of 0 with INTERNAL and RetryInfo", func(_ int, s grpc.ServerStream, _ string) error {
			s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", "0"))
			return hinted(codes.Internal, time.Second)
		}, get, retry.Transient, time.Second},
		{"pushback below RetryInfo", func(_ int, s grpc.ServerStream, _ string) error {
			s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", "1000"))
			return hinted(codes.Aborted, 2*time.Second)
		}, pay, retry.Throttled, 2 * time.Second},
		{"pushback above RetryInfo", func(_ int, s grpc.ServerStream, _ string) error {
			s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", "3000"))
			return hinted(codes.Aborted, 2*time.Second)
		}, pay, retry.Throttled, 3 * time.Second},
		{"INTERNAL", always(hinted(codes.Internal, time.Second)), get, retry.Transient, time.Second},
		{"DEADLINE_EXCEEDED", always(hinted(codes.DeadlineExceeded, time.Second)), get, retry.TimedOut, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			h := retrytest.New(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Second)})
			cc := dial(t, s.addr, &retrygrpc.Client{Policy: h.Policy})
			if _, err := call(within(t), cc, tt.method); reason(err) != "max_attempts" {
				t.Errorf("error = %v", err)
			}
			now := tt.hint < 0
			if now {
				tt.hint = 0
				h.AssertDelays(0)
			} else {
				h.AssertDelays(tt.hint + time.Second)
			}
			if a := h.Attempts()[0]; a.Class != tt.class || a.Hint != tt.hint || a.Now != now {
				t.Errorf("class %v, hint %v, now: %v, want %v, %v, %v", a.Class, a.Hint, a.Now, tt.class, tt.hint, now)
			}
		})
	}
}

// TestHintWithoutAStream: an interceptor below may answer for the server.
func TestHintWithoutAStream(t *testing.T) {
	for code, want := range map[codes.Code]retry.Class{codes.DeadlineExceeded: retry.TimedOut, codes.Internal: retry.Transient} {
		h := retrytest.New(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Second)})
		c := &retrygrpc.Client{Policy: h.Policy}
		cc := dial(t, serve(t, always(nil)).addr, nil, append(c.DialOptions(), grpc.WithChainUnaryInterceptor(
			func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
				return hinted(code, time.Second)
			}))...)
		if _, err := call(within(t), cc, get); reason(err) != "max_attempts" {
			t.Errorf("%v: error = %v", code, err)
		}
		if got := h.Attempts()[0].Class; got != want {
			t.Errorf("%v is %v, want %v", code, got, want)
		}
	}
}

// TestClassifyGoesFirst: Policy.Classify is asked once, before the rules; the server's
// hint is kept, and its refusal wins.
func TestClassifyGoesFirst(t *testing.T) {
	for _, tt := range []struct {
		name   string
		says   retry.Class
		answer handler
		calls  int
		hint   time.Duration
	}{
		{"another word", retry.Transient, always(fail(codes.NotFound)), 2, 0},
		{"the hint of a code that has none", retry.Transient, always(hinted(codes.NotFound, time.Second)), 2, time.Second},
		{"permanent", retry.Permanent, always(fail(codes.Unavailable)), 1, 0},
		{"no opinion", retry.Unknown, always(fail(codes.Unavailable)), 2, 0},
		{"nonsense", 77, always(fail(codes.NotFound)), 1, 0},
		{"refused", retry.Transient, pushing(codes.Unavailable, "-1"), 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			asked := 0
			h := retrytest.New(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Classify: func(err error) retry.Class {
				asked++
				if _, ok := status.FromError(err); !ok {
					t.Errorf("asked about %v", err)
				}
				return tt.says
			}})
			cc := dial(t, s.addr, &retrygrpc.Client{Policy: h.Policy})
			_, err := call(within(t), cc, get)
			if s.calls() != tt.calls {
				t.Errorf("%d calls, want %d: %v", s.calls(), tt.calls, err)
			}
			if want := tt.calls; tt.name != "refused" && asked != want {
				t.Errorf("Classify was asked %d times, want %d", asked, want)
			}
			if got := h.Attempts()[0].Hint; got != tt.hint {
				t.Errorf("hint = %v, want %v", got, tt.hint)
			}
		})
	}
}

// TestAnswerIsNoFailure: an error that is the server's answer is a success to hooks
// and budgets, whatever the server says about retries; one that would be retried if the
// server did not refuse that, or that never reached a server, is a failure.
func TestAnswerIsNoFailure(t *testing.T) {
	var trailer metadata.MD
	for _, tt := range []struct {
		name   string
		answer handler
		opts   []grpc.CallOption
		ok     bool
	}{
		{"NOT_FOUND", always(fail(codes.NotFound)), []grpc.CallOption{grpc.Trailer(&trailer)}, true},
		{"ABORTED", always(fail(codes.Aborted)), nil, true},
		{"UNAVAILABLE, not to be repeated", pushing(codes.Unavailable, "-1"), nil, false},
		{"NOT_FOUND, not to be repeated", pushing(codes.NotFound, "-1"), nil, true},
		{"bad options", always(nil), []grpc.CallOption{grpc.CallContentSubtype("none")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			var r told
			b := new(ledger)
			p := four()
			p.Hooks, p.Budget = r.hooks(), b
			cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
			_, err := call(within(t), cc, get, tt.opts...)
			if _, ok := err.(interface{ GRPCStatus() *status.Status }); !ok || reason(err) != "bare" {
				t.Errorf("error = %v, want it bare", err)
			}
			if got := r.summaries(); len(got) != 1 || (got[0].Err == nil) != tt.ok {
				t.Errorf("Done got %+v", got)
			}
			if got := r.attempts; len(got) != 1 || (got[0].Err == nil) != tt.ok {
				t.Errorf("AttemptDone got %+v", got)
			}
			if b.ended != 1 || (b.succeeded == 1) != tt.ok {
				t.Errorf("the budget saw %+v", b)
			}
		})
	}
	if len(trailer["content-type"]) == 0 {
		t.Errorf("the caller's own grpc.Trailer got %v", trailer)
	}
}

// ledger is a budget that grants everything.
type ledger struct{ granted, ended, succeeded int }

func (l *ledger) Withdraw(retry.Withdrawal) bool { l.granted++; return true }
func (l *ledger) End(o retry.Outcome) {
	if l.ended++; o.OK {
		l.succeeded++
	}
}

// TestGivingUp: the error is a *retry.Error, and has the last attempt's status with
// its details.
func TestGivingUp(t *testing.T) {
	s := serve(t, func(n int, _ grpc.ServerStream, _ string) error {
		if n == 1 {
			return fail(codes.Unavailable)
		}
		return hinted(codes.ResourceExhausted, time.Millisecond)
	})
	p := four()
	p.MaxAttempts = 2
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
	_, err := call(within(t), cc, get)
	e, ok := errors.AsType[*retry.Error](err)
	if !ok || e.Name != get[1:] || e.Attempts != 2 || e.Reason != retry.ReasonMaxAttempts {
		t.Fatalf("error = %#v", err)
	}
	st, ok := status.FromError(err)
	if !ok || st.Code() != codes.ResourceExhausted || st.Message() != "no" || len(st.Details()) != 1 {
		t.Errorf("status = %v, %v", st, ok)
	}
	if got, want := status.Code(e.Errs[0]), codes.Unavailable; got != want {
		t.Errorf("first error = %v, want %v", got, want)
	}
	if got, want := e.Last().(interface{ ErrorType() string }).ErrorType(), "RESOURCE_EXHAUSTED"; got != want {
		t.Errorf("error.type = %q, want %q", got, want)
	}
	if want := "retrygrpc.test.Test/Get: gave up after 2 attempts"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("text = %q, want %q first", err, want)
	}
}

func TestOversizeAnswerIsFetchedOnce(t *testing.T) {
	big := strings.Repeat("x", 5<<20)
	s := serve(t, func(_ int, s grpc.ServerStream, _ string) error { return reply(s, big) })
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()})
	if _, err := call(within(t), cc, get); status.Code(err) != codes.ResourceExhausted || reason(err) != "bare" {
		t.Errorf("error = %v", err)
	}
	if s.calls() != 1 {
		t.Errorf("the server saw %d calls, want 1", s.calls())
	}
}

func TestServiceConfigDoesNotMultiply(t *testing.T) {
	s := serve(t, always(fail(codes.Unavailable)))
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()}, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}],
		"retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["UNAVAILABLE"]}}]}`))
	if _, err := call(within(t), cc, get); status.Code(err) != codes.Unavailable {
		t.Errorf("error = %v", err)
	}
	if s.calls() != 4 {
		t.Errorf("the server saw %d calls, want 4", s.calls())
	}
}

// TestNobodyListens: what never reached a server is retried whatever the method.
func TestNobodyListens(t *testing.T) {
	l := listen(t)
	l.Close()
	for name, begin := range map[string]func(*grpc.ClientConn) error{
		"unary": func(cc *grpc.ClientConn) error { _, err := call(within(t), cc, pay); return err },
		"server stream": func(cc *grpc.ClientConn) error {
			s, err := open(within(t), cc, send)
			if s != nil {
				t.Error("there is a stream")
			}
			return err
		},
		"both stream": func(cc *grpc.ClientConn) error {
			s, err := cc.NewStream(within(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, chat)
			if s != nil {
				t.Error("there is a stream")
			}
			return err
		},
		"waiting until ready": func(cc *grpc.ClientConn) error {
			_, err := call(within(t), cc, pay, grpc.WaitForReady(true))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r told
			p, want := four(), codes.Unavailable
			p.Hooks = r.hooks()
			if name == "waiting until ready" {
				p.AttemptTimeout, want = 5*time.Millisecond, codes.DeadlineExceeded
			}
			err := begin(dial(t, l.Addr().String(), &retrygrpc.Client{Policy: p}))
			if status.Code(err) != want || reason(err) != "max_attempts" {
				t.Errorf("error = %v", err)
			}
			if got := r.classes(); !slices.Equal(got, slices.Repeat([]retry.Class{retry.Unprocessed}, 4)) {
				t.Errorf("classes = %v", got)
			}
		})
	}
}

// TestPreviousAttempts: a retry says which it is; a first attempt sends what the caller
// gave it.
func TestPreviousAttempts(t *testing.T) {
	const key = "grpc-previous-rpc-attempts"
	s := serve(t, failing(2, fail(codes.Unavailable)))
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()})
	ctx := metadata.AppendToOutgoingContext(within(t), key, "9", "tenant", "a")
	if got, err := call(ctx, cc, get); got != "hello" || err != nil {
		t.Fatal(got, err)
	}
	var got []string
	for _, md := range s.metadata() {
		got = append(got, strings.Join(md[key], ",")+md["tenant"][0])
	}
	if want := []string{"9a", "1a", "2a"}; !slices.Equal(got, want) {
		t.Errorf("%s = %v, want %v", key, got, want)
	}
}

// TestWhatMayRunTwice: whose word counts.
func TestWhatMayRunTwice(t *testing.T) {
	s := serve(t, always(fail(codes.Unavailable)))
	never := four()
	never.NonIdempotent = true
	for _, tt := range []struct {
		name   string
		client *retrygrpc.Client
		method string
		opts   []grpc.CallOption
		calls  int
	}{
		{"NO_SIDE_EFFECTS", &retrygrpc.Client{}, get, nil, 4},
		{"IDEMPOTENT", &retrygrpc.Client{}, put, nil, 4},
		{"no level", &retrygrpc.Client{}, pay, nil, 1},
		{"a file that is not linked", &retrygrpc.Client{}, plain, nil, 1},
		{"a method that the file does not have", &retrygrpc.Client{}, "/retrygrpc.test.Test/Nope", nil, 1},
		{"a message for a service", &retrygrpc.Client{}, "/google.protobuf.StringValue/Get", nil, 1},
		{"Client.Idempotent", &retrygrpc.Client{Idempotent: func(m string) bool { return m == pay }}, pay, nil, 4},
		{"Client.Idempotent says no", &retrygrpc.Client{Idempotent: func(string) bool { return false }}, get, nil, 4},
		{"option", &retrygrpc.Client{}, pay, []grpc.CallOption{retrygrpc.Idempotent(true)}, 4},
		{"option says no", &retrygrpc.Client{Idempotent: func(string) bool { return true }}, get, []grpc.CallOption{retrygrpc.Idempotent(false)}, 1},
		{"the last option", &retrygrpc.Client{}, pay, []grpc.CallOption{retrygrpc.Idempotent(false), retrygrpc.Idempotent(true)}, 4},
		{"Policy.NonIdempotent", &retrygrpc.Client{Policy: never}, get, nil, 1},
		{"Policy.NonIdempotent before Client.Idempotent", &retrygrpc.Client{Policy: never, Idempotent: func(string) bool { return true }}, get, nil, 1},
		{"Policy.NonIdempotent before the option", &retrygrpc.Client{Policy: never}, get, []grpc.CallOption{retrygrpc.Idempotent(true)}, 1},
		{"ForMethod takes NonIdempotent away", &retrygrpc.Client{Policy: never, ForMethod: func(_ string, p retry.Policy) retry.Policy {
			p.NonIdempotent = false
			return p
		}}, get, nil, 4},
		{"the NonIdempotent of ForMethod counts", &retrygrpc.Client{ForMethod: func(string, retry.Policy) retry.Policy { return never }}, get, nil, 1},
		{"and that of WithPolicy", &retrygrpc.Client{}, get, []grpc.CallOption{retrygrpc.WithPolicy(with(never)), retrygrpc.Idempotent(true)}, 1},
		{"WithPolicy", &retrygrpc.Client{}, pay, []grpc.CallOption{retrygrpc.WithPolicy(with(four()))}, 1},
		{"WithPolicy and option", &retrygrpc.Client{}, pay, []grpc.CallOption{retrygrpc.WithPolicy(with(four())), retrygrpc.Idempotent(true)}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.client.Policy.MaxAttempts == 0 {
				tt.client.Policy = four()
			}
			cc := dial(t, s.addr, tt.client)
			before := s.calls()
			_, err := call(within(t), cc, tt.method, tt.opts...)
			if got := s.calls() - before; got != tt.calls {
				t.Errorf("%d calls, want %d: %v", got, tt.calls, err)
			}
		})
	}
}

// TestWhichPolicy: Policy, ForMethod, Budget and WithPolicy.
func TestWhichPolicy(t *testing.T) {
	s := serve(t, always(fail(codes.Unavailable)))
	var target string
	perTarget, own := new(ledger), new(ledger)
	c := &retrygrpc.Client{
		Policy: four(),
		ForMethod: func(method string, p retry.Policy) retry.Policy {
			if method == put {
				p.MaxAttempts, p.Name = 2, "put"
			}
			return p
		},
		Budget: func(to string) retry.Budget { target = to; return perTarget },
	}
	cc := dial(t, s.addr, c)
	check := func(name string, calls, charged int, opts ...grpc.CallOption) {
		t.Helper()
		before, spent := s.calls(), perTarget.granted
		method := get
		if name == "put" {
			method = put
		}
		_, err := call(within(t), cc, method, opts...)
		if got := s.calls() - before; got != calls {
			t.Errorf("%s: %d calls, want %d", name, got, calls)
		}
		if got := perTarget.granted - spent; got != charged {
			t.Errorf("%s: the target's budget was asked %d times, want %d", name, got, charged)
		}
		if e, ok := errors.AsType[*retry.Error](err); !ok || e.Name != name {
			t.Errorf("error = %v, want the name %q", err, name)
		}
	}
	check(get[1:], 4, 3)
	check("put", 2, 1)
	check("mine", 3, 0, retrygrpc.WithPolicy(with(retry.Policy{MaxAttempts: 3, Name: "mine", Backoff: retry.Constant(0), Budget: own})))
	if own.granted != 2 {
		t.Errorf("the call's own budget was asked %d times, want 2", own.granted)
	}
	if target != cc.Target() {
		t.Errorf("target = %q, want %q", target, cc.Target())
	}
	var none *retry.PerKey[ledger]
	c.Policy.Budget = own
	for i, nothing := range []func(string) retry.Budget{
		func(string) retry.Budget { return nil },
		func(target string) retry.Budget { return none.For(target) },
	} {
		c.Budget = nothing
		check(get[1:], 4, 0)
		if want := 5 + 3*i; own.granted != want {
			t.Errorf("the policy's budget was asked %d times, want %d", own.granted, want)
		}
	}
}

// TestNilClient: a nil *Client is a zero one.
func TestNilClient(t *testing.T) {
	s := serve(t, always(fail(codes.NotFound)))
	var c *retrygrpc.Client
	cc := dial(t, s.addr, nil, c.DialOptions()...)
	if _, err := call(within(t), cc, get); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	if _, err := open(within(t), cc, list); err != nil {
		t.Error(err)
	}
}

// TestMalformedMethod: the caller gets what grpc says of it.
func TestMalformedMethod(t *testing.T) {
	s := serve(t, always(nil))
	with, without := dial(t, s.addr, &retrygrpc.Client{Policy: four()}), dial(t, s.addr, nil)
	for _, method := range []string{"", "/", "//", "Get", "/a", "a/b", "/a//b", "/\xff/\xfe"} {
		_, want := call(within(t), without, method)
		_, got := call(within(t), with, method)
		if want == nil && got == nil {
			continue
		}
		if want == io.EOF && errors.Is(got, io.EOF) {
			continue // grpc before v1.76 has no status for some, and the run's error is around what it returns
		}
		if got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("%q: error = %v, want %v", method, got, want)
		}
	}
}

// TestBadMetadata: what grpc refuses to send is tried once.
func TestBadMetadata(t *testing.T) {
	var r told
	p := four()
	p.Hooks = r.hooks()
	cc := dial(t, serve(t, always(nil)).addr, &retrygrpc.Client{Policy: p})
	_, err := call(metadata.AppendToOutgoingContext(within(t), "a b", "c"), cc, get)
	if status.Code(err) != codes.Internal || reason(err) != "bare" || len(r.attempts) != 1 {
		t.Errorf("error = %v after %d attempts", err, len(r.attempts))
	}
}

// TestClosedConnection: a connection that the program has closed stays closed.
func TestClosedConnection(t *testing.T) {
	var r told
	p := four()
	p.Hooks = r.hooks()
	cc := dial(t, serve(t, always(nil)).addr, &retrygrpc.Client{Policy: p})
	cc.Close()
	_, err := call(within(t), cc, get)
	if status.Code(err) != codes.Canceled || reason(err) != "bare" || len(r.attempts) != 1 {
		t.Errorf("error = %v after %d attempts", err, len(r.attempts))
	}
}

// TestAttemptTimeout: an attempt that hangs is DEADLINE_EXCEEDED, and tells the server
// its deadline.
func TestAttemptTimeout(t *testing.T) {
	s := serve(t, func(n int, s grpc.ServerStream, in string) error {
		if n == 1 {
			<-s.Context().Done()
			return fail(codes.Aborted) // whatever a server makes of it
		}
		if _, ok := s.Context().Deadline(); !ok {
			t.Error("the server sees no deadline")
		}
		return reply(s, in)
	})
	var r told
	p := four()
	p.AttemptTimeout, p.Hooks = 100*time.Millisecond, r.hooks()
	cc := ready(t, dial(t, s.addr, &retrygrpc.Client{Policy: p}))
	if got, err := call(within(t), cc, get); got != "hello" || err != nil {
		t.Fatal(got, err)
	}
	first := r.attempts[0]
	if status.Code(first.Err) != codes.DeadlineExceeded || !errors.Is(first.Err, retry.ErrAttemptTimeout) || first.Class != retry.TimedOut {
		t.Errorf("first attempt: %v, %v", first.Err, first.Class)
	}
	if got, want := first.Err.Error(), "rpc error: code = DeadlineExceeded desc = retry: attempt timed out"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
}

// TestAttemptTimeoutOnAnotherClock: that clock's time counts, and grpc is not shown a
// deadline that is long past on its own.
func TestAttemptTimeoutOnAnotherClock(t *testing.T) {
	clock := clockx.NewVirtual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	s := serve(t, func(n int, s grpc.ServerStream, in string) error {
		if n == 1 {
			clock.Advance(time.Hour)
			<-s.Context().Done()
			return s.Context().Err()
		}
		return reply(s, in)
	})
	p := four()
	p.AttemptTimeout, p.Clock = time.Hour, clock
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
	if got, err := call(within(t), cc, get); got != "hello" || err != nil || s.calls() != 2 {
		t.Errorf("%q, %v after %d calls", got, err, s.calls())
	}
	if clock.Pending() != 0 {
		t.Errorf("%d timers are left", clock.Pending())
	}
}

// TestCallersContext: its end is the code, whatever the last attempt's was.
func TestCallersContext(t *testing.T) {
	s := serve(t, always(fail(codes.Unavailable)))
	p := four()
	p.Backoff = retry.Constant(10 * time.Second)
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})

	ctx, cancel := context.WithCancelCause(within(t))
	p.Hooks.Wait = func(context.Context, retry.Attempt) { cancel(errors.New("lunch")) }
	_, err := call(ctx, cc, get, retrygrpc.WithPolicy(with(p)))
	if status.Code(err) != codes.Canceled || reason(err) != "canceled" || !strings.Contains(err.Error(), "lunch") {
		t.Errorf("error = %v", err)
	}
	_, err = call(ctx, cc, get)
	if status.Code(err) != codes.Canceled || reason(err) != "canceled" {
		t.Errorf("on a context that has ended: error = %v", err)
	}

	// A wait that would pass the deadline is not begun, and the code stays the server's.
	p.Hooks.Wait, p.Backoff = nil, retry.Constant(time.Hour)
	_, err = call(within(t), cc, get, retrygrpc.WithPolicy(with(p)))
	if status.Code(err) != codes.Unavailable || reason(err) != "deadline" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v", err)
	}

	arrived := make(chan struct{}, 8)
	hang := serve(t, func(_ int, s grpc.ServerStream, _ string) error {
		if err := s.SendHeader(nil); err != nil {
			return err
		}
		arrived <- struct{}{}
		<-s.Context().Done()
		return s.Context().Err()
	})
	p.Backoff = retry.Constant(time.Second) // or an attempt that the server ended first would be repeated
	cc = ready(t, dial(t, hang.addr, &retrygrpc.Client{Policy: p}))
	ctx, cancel = context.WithCancelCause(within(t))
	go func() {
		<-arrived
		cancel(nil)
	}()
	_, err = call(ctx, cc, get)
	if status.Code(err) != codes.Canceled || reason(err) != "canceled" {
		t.Errorf("canceled after headers: error = %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err = call(ctx, cc, get)
	if status.Code(err) != codes.DeadlineExceeded || reason(err) != "deadline" {
		t.Errorf("after the deadline: error = %v", err)
	}
}

// TestOtherInterceptors: what errors without a status mean is package retry's to say,
// marks included, and inner runs keep their word.
func TestOtherInterceptors(t *testing.T) {
	oops := errors.New("oops")
	inner := &retry.Error{Reason: retry.ReasonMaxAttempts, Errs: []error{fail(codes.Unavailable)}}
	for _, tt := range []struct {
		name   string
		err    error
		calls  int
		code   codes.Code
		reason string
	}{
		{"a plain error", oops, 4, codes.Unknown, "max_attempts"},
		{"a permanent one", fs.ErrPermission, 1, codes.Unknown, "permanent"},
		{"a stopped one", retry.Stop(oops), 1, codes.Unknown, "permanent"},
		{"a refused one", retry.Refuse(oops), 1, codes.Unknown, "refused"},
		{"a wait", retry.After(oops, time.Millisecond), 4, codes.Unknown, "max_attempts"},
		{"a long wait", retry.After(oops, 2*time.Second), 1, codes.Unknown, "retry_after"},
		{"a stopped status", retry.Stop(fail(codes.Unavailable)), 1, codes.Unavailable, "bare"},
		{"a status with a hint", retry.After(fail(codes.NotFound), time.Millisecond), 4, codes.NotFound, "max_attempts"},
		{"an inner run", inner, 4, codes.Unavailable, "max_attempts"},
		{"an inner run that must not go on", &retry.Error{Reason: retry.ReasonNotIdempotent, Errs: inner.Errs}, 1, codes.Unavailable, "permanent"},
		{"a status without a call", fail(codes.Unavailable), 4, codes.Unavailable, "max_attempts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			p := four()
			p.MaxRetryAfter = time.Second
			c := &retrygrpc.Client{Policy: p}
			cc := dial(t, "127.0.0.1:1", nil, append(c.DialOptions(), grpc.WithChainUnaryInterceptor(
				func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
					calls++
					return tt.err
				}))...)
			_, err := call(within(t), cc, get)
			if calls != tt.calls || status.Code(err) != tt.code || reason(err) != tt.reason {
				t.Errorf("%d calls, %v, %s: %v; want %d, %v, %s", calls, status.Code(err), reason(err), err, tt.calls, tt.code, tt.reason)
			}
			if tt.reason != "bare" && !errors.Is(err, tt.err) && !strings.Contains(err.Error(), tt.err.Error()) {
				t.Errorf("error = %v, without %v", err, tt.err)
			}
			if c := (retry.Policy{}).Judge(err).Class; tt.reason == "bare" && c == retry.Permanent {
				t.Errorf("a mark was left on %v", err)
			}
		})
	}
}

func TestClassify(t *testing.T) {
	for c := codes.Code(1); c < 20; c++ {
		want := retry.Permanent
		switch c {
		case codes.Unavailable:
			want = retry.Transient
		case codes.DeadlineExceeded:
			want = retry.TimedOut
		case codes.ResourceExhausted:
			want = retry.Throttled
		}
		if got := retrygrpc.Classify(fmt.Errorf("get: %w", fail(c))); got != want {
			t.Errorf("Classify(%v) = %v, want %v", c, got, want)
		}
	}
	for _, err := range []error{nil, errors.New("oops"), context.DeadlineExceeded,
		&retry.Error{Errs: []error{fail(codes.NotFound)}}, (*retry.Error)(nil)} {
		if got := retrygrpc.Classify(err); got != retry.Unknown {
			t.Errorf("Classify(%v) = %v, want unknown", err, got)
		}
	}
}

// TestCloseEndsAWait: a call that waits for its retry notices that the program has
// closed the connection.
func TestCloseEndsAWait(t *testing.T) {
	for _, method := range []string{get, list} {
		s := serve(t, always(fail(codes.Unavailable)))
		var r told
		p := four()
		p.Backoff, p.Hooks = retry.Constant(time.Hour), r.hooks()
		cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
		ended := make(chan error)
		go func() {
			if method == get {
				_, err := call(t.Context(), cc, method)
				ended <- err
				return
			}
			stream, err := open(t.Context(), cc, method)
			if err == nil {
				_, err = recv(stream)
			}
			ended <- err
		}()
		eventually(t, "the call waits", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.waits) == 1
		})
		cc.Close()
		select {
		case err := <-ended:
			if status.Code(err) != codes.Canceled || s.calls() != 1 {
				t.Errorf("%s: %v after %d calls, want CANCELED after one", method, err, s.calls())
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: the call still waits", method)
		}
		if got := r.summaries(); len(got) != 1 || got[0].Waited > time.Minute {
			t.Errorf("%s: Done got %+v", method, got)
		}
	}
}

// TestWaitOfAnInterceptor: the call's MaxRetryAfter limits it, and no other.
func TestWaitOfAnInterceptor(t *testing.T) {
	p := four()
	p.MaxRetryAfter, p.Budget = time.Hour, &budget.Token{Capacity: -1}
	c := &retrygrpc.Client{Policy: p}
	cc := dial(t, "127.0.0.1:1", nil, append(c.DialOptions(), grpc.WithChainUnaryInterceptor(
		func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			return retry.After(errors.New("oops"), 10*time.Minute)
		}))...)
	if _, err := call(t.Context(), cc, get); reason(err) != "budget" {
		t.Errorf("error = %v, want it from the budget, which is checked last", err)
	}
}

// TestNoWaitAfterTheBudget: a call whose retry the budget refuses ends at once.
func TestNoWaitAfterTheBudget(t *testing.T) {
	s := serve(t, always(fail(codes.Unavailable)))
	p := four()
	p.Backoff, p.Budget = retry.Constant(time.Hour), &budget.Token{Capacity: -1}
	for _, method := range []string{get, list} {
		ctx, cancel := context.WithCancel(t.Context()) // a deadline would forbid the wait before the budget does
		stop := time.AfterFunc(time.Minute, cancel)
		var err error
		cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
		if method == get {
			_, err = call(ctx, cc, method)
		} else if stream, failed := open(ctx, cc, method); failed == nil {
			_, err = recv(stream)
		}
		if reason(err) != "budget" || !stop.Stop() {
			t.Errorf("%s: error = %v", method, err)
		}
		cancel()
	}
}
