package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retrytest"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// many is an error with every method that anyone calls on errors. Each of them needs
// more than a nil pointer.
type many struct{ err error }

func (m *many) Error() string             { return m.err.Error() }
func (m *many) Unwrap() []error           { return []error{m.err} }
func (m *many) Is(target error) bool      { return m.err == target }
func (m *many) As(any) bool               { return m.err == nil }
func (m *many) Timeout() bool             { return m.err == nil }
func (m *many) ErrorType() string         { return m.err.Error() }
func (m *many) RetryAfter() time.Duration { return time.Duration(len(m.err.Error())) }

// Nil pointers get into errors by the dozen. They end a run as they do without hooks.
func TestNilPointersInErrors(t *testing.T) {
	pointers := map[string]error{
		"url":     (*url.Error)(nil),
		"path":    (*fs.PathError)(nil),
		"syscall": (*os.SyscallError)(nil),
		"net":     (*net.OpError)(nil),
		"dns":     (*net.DNSError)(nil),
		"run":     (*retry.Error)(nil),
		"many":    (*many)(nil),
		"broken":  (*brokenError)(nil),
	}
	shapes := map[string]func(error) error{
		"bare":    func(err error) error { return err },
		"wrapped": func(err error) error { return fmt.Errorf("get: %w", err) },
		"opaque":  func(err error) error { return &url.Error{Op: "Get", URL: "http://host", Err: err} },
		"joined":  func(err error) error { return errors.Join(errDown, err) },
		"hinted":  func(err error) error { return retry.After(err, time.Second) },
		"stopped": func(err error) error { return retry.Stop(err) },
		"inner":   func(err error) error { return &retry.Error{Errs: []error{err}, Attempts: 1} },
	}
	for name, pointer := range pointers {
		for shape, made := range shapes {
			for _, mode := range []otelretry.Attempts{otelretry.AllAttempts, otelretry.RetriedRuns, otelretry.NoAttempts} {
				v := view(t, retry.Policy{MaxAttempts: 2}, otelretry.WithAttempts(mode))
				plain := v.h.Policy
				plain.Hooks = retry.Hooks{}
				op := func(context.Context) error { return made(pointer) }
				want, got := reasonOf(t, plain, op), reasonOf(t, v.h.Policy, op)
				if got != want {
					t.Errorf("%s, %s: %s with hooks, %s without", name, shape, got, want)
				}
				if open := len(v.spans.Started()) - len(v.spans.Ended()); open != 0 || len(v.spans.Ended()) == 0 {
					t.Errorf("%s, %s: %d spans are open, %d ended", name, shape, open, len(v.spans.Ended()))
				}
			}
		}
	}
}

// reasonOf returns how a run ends.
func reasonOf(t *testing.T, p retry.Policy, op func(context.Context) error) (reason string) {
	defer func() {
		if r := recover(); r != nil {
			reason = fmt.Sprint("panic: ", r)
		}
	}()
	e, ok := errors.AsType[*retry.Error](retry.Run(t.Context(), p, op))
	if !ok || e == nil {
		return "none"
	}
	return fmt.Sprint(e.Reason, " after ", e.Attempts)
}

// A poll whose server says when it will be ready is still a poll.
func TestAPollWithAHintIsNoOutage(t *testing.T) {
	v := view(t, retry.Policy{MaxAttempts: 5}, otelretry.WithWaits(false))
	answers := []error{
		retry.After(retry.ErrRejected, time.Second),
		fmt.Errorf("pending: %w", retry.After(retry.ErrRejected, time.Second)),
		retry.After(fmt.Errorf("pending: %w", retry.ErrRejected), time.Second),
		errors.Join(errDown, retry.After(retry.ErrRejected, time.Second)),
	}
	v.run(t.Context(), retrytest.Fail[int](answers[0]), retrytest.Fail[int](answers[1]), retrytest.Fail[int](answers[2]), retrytest.Fail[int](answers[3]), succeeds(0))
	if got := v.tree(); strings.Contains(got, "error.type") || strings.Contains(got, "Error") || strings.Count(got, "@") != 4 {
		t.Errorf("spans:\n%swant four events, no error.type and no status", got)
	}
	if got, want := metrics(t, v.reader), "retry.attempt.duration [s] class=transient: 4 runs"; !strings.Contains(got, want) || strings.Contains(got, "error.type") {
		t.Errorf("metrics:\n%swant %s and no error.type", got, want)
	}
}

// A policy's own Classify need not look at an error. Neither must the hooks break on
// one whose methods do.
func TestAnErrorWhoseMethodsPanic(t *testing.T) {
	v := view(t, retry.Policy{MaxAttempts: 1, Classify: func(error) retry.Class { return retry.Permanent }})
	v.h.Policy.Hooks.Done = nil // who prints the *Error calls them too
	if got := reasonOf(t, v.h.Policy, func(context.Context) error { return &opaquePanic{} }); got != "permanent after 1" {
		t.Errorf("the run ends with %s, want permanent after 1", got)
	}
}

type opaquePanic struct{}

func (*opaquePanic) Error() string     { panic("Error") }
func (*opaquePanic) ErrorType() string { panic("ErrorType") }

// What is kept of a long text must not keep all of it: names and values of error.type
// are kept for as long as the program runs, descriptions until they are exported.
func TestWhatIsCutKeepsNothingAlive(t *testing.T) {
	otelretry.Forget()
	t.Cleanup(otelretry.Forget)
	const large = 1 << 20
	exporter := tracetest.NewInMemoryExporter() // which keeps all
	traces := trace.NewTracerProvider(trace.WithSyncer(exporter))
	reader := metric.NewManualReader()
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	opts := []otelretry.Option{otelretry.WithTracerProvider(traces), otelretry.WithMeterProvider(meters)}
	p := retry.Policy{MaxAttempts: 1, Hooks: otelretry.Hooks(opts...)}
	hedged := otelretry.HedgeHook(opts...)
	before := heap()
	for i := range 50 {
		text := func(what string) string { return fmt.Sprint(what, i) + strings.Repeat("x", large) }
		_ = retry.Run(context.Background(), p.Named(text("name")), func(context.Context) error { return typedError{text("type")} })
		_ = retry.Run(context.Background(), p, func(context.Context) error { return errors.New(text("text")) })
		hedged(context.Background(), hedge.Summary{Name: text("hedged"), Started: 2})
		unregister, err := otelretry.ObserveHedge(text("observed"), &hedge.Hedge{}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer unregister()
	}
	if kept := heap() - before; kept > 10*large {
		t.Errorf("%d MiB are alive, want less than 10", kept/large)
	}
	runtime.KeepAlive(exporter)
	runtime.KeepAlive(meters)
}

func heap() int {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Viewers and stores nest attributes by their dots: retry.hedge cannot be a text and
// hold retry.hedge.delay.
func TestNoAttributeIsANamespace(t *testing.T) {
	v := view(t, retry.Policy{Name: "fetch", MaxAttempts: 2}, otelretry.WithWaits(false))
	v.run(t.Context(), retrytest.Fail[int](retry.After(errDown, time.Second)), fails(0))
	opt := otelretry.WithMeterProvider(v.meters)
	v.inSpan(t.Context(), func(ctx context.Context) {
		otelretry.HedgeHook(opt)(ctx, hedge.Summary{Name: "fetch", Started: 2, Winner: 1, Refused: errors.New("refused")})
	})
	for _, observe := range []func() (func() error, error){
		func() (func() error, error) { return otelretry.ObserveBudget("users", &budget.Token{}, opt) },
		func() (func() error, error) { return otelretry.ObserveHedge("users", &hedge.Hedge{}, opt) },
		func() (func() error, error) { return otelretry.ObserveLimit("users", &limit.Limit{}, opt) },
		func() (func() error, error) { return otelretry.ObserveBreaker("users", &breaker.Breaker{}, opt) },
		func() (func() error, error) { return otelretry.ObserveTarget("users", &failover.Target[int]{}, opt) },
	} {
		unregister, err := observe()
		if err != nil {
			t.Fatal(err)
		}
		defer unregister()
	}

	var measured string
	_ = retry.Run(t.Context(), v.h.Policy, func(context.Context) error {
		measured = metrics(t, v.reader) // while a run is underway
		return nil
	})

	var keys []string // without "retry.", which the texts leave out
	for _, m := range regexp.MustCompile(` ([a-z._]+)=`).FindAllStringSubmatch(v.tree()+measured, -1) {
		keys = append(keys, m[1])
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) != 22 {
		t.Errorf("%d keys, want 22: %q", len(keys), keys)
	}
	for _, key := range keys {
		for _, other := range keys {
			if strings.HasPrefix(other, key+".") {
				t.Errorf("retry.%s is a namespace of retry.%s", key, other)
			}
		}
	}
}

// counted counts the calls of its methods. It wraps an error, and has an As that looks
// through it as well.
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

// Each run of a deep nest describes those below it.
func TestNestedRunsTakeNoPowerOfTheirDepth(t *testing.T) {
	calls := 0
	at := func(depth int) int {
		var err error = typedError{"down"}
		for range depth {
			err = counted{&retry.Error{Reason: retry.ReasonBudget, Attempts: 1, Errs: []error{err}}, &calls}
		}
		v := view(t, retry.Policy{MaxAttempts: 1})
		calls = 0
		ctx := v.hooks.Start(t.Context(), v.h.Policy)
		a := retry.Attempt{Number: 1, Err: err, Class: retry.Transient}
		v.hooks.AttemptDone(v.hooks.Attempt(ctx, a), a)
		v.hooks.Done(ctx, retry.Summary{Attempts: 1, Reason: retry.ReasonMaxAttempts, Err: &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{err}}})
		return calls
	}
	for _, depth := range []int{4, 8, 16} {
		if once, twice := at(depth), at(2*depth); once == 0 || twice > 10*once {
			t.Errorf("%d calls of methods at depth %d, %d at %d", once, depth, twice, 2*depth)
		}
	}
}
