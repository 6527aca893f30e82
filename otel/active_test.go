package otelretry_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retryqueue"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// active returns what retry.operation.active reports, without what stands at 0
// unless zeros is set, a line for each set of attributes.
func active(t *testing.T, reader sdkmetric.Reader, zeros bool) string {
	t.Helper()
	if !zeros {
		var lines []string
		for line := range strings.Lines(metrics(t, reader)) {
			if rest, ok := strings.CutPrefix(line, "retry.operation.active [{operation}]"); ok {
				lines = append(lines, strings.TrimSpace(rest))
			}
		}
		return strings.Join(lines, "\n")
	}
	var got metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != "retry.operation.active" {
				continue
			}
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				if p.Value != 0 || seen[attributes(p.Attributes.ToSlice())] {
					t.Errorf("%v: %d", p.Attributes, p.Value)
				}
				seen[attributes(p.Attributes.ToSlice())] = true
			}
			if m.Data.(metricdata.Sum[int64]).IsMonotonic {
				t.Error("it is monotonic")
			}
		}
	}
	return strings.Repeat("0 ", len(seen))
}

func TestRunsUnderwayAreSeen(t *testing.T) {
	for name, opts := range map[string][]otelretry.Option{
		"sampled":      nil,
		"retried runs": {otelretry.WithAttempts(otelretry.RetriedRuns)},
		"no attempts":  {otelretry.WithAttempts(otelretry.NoAttempts)},
	} {
		t.Run(name, func(t *testing.T) {
			v := view(t, retry.Policy{Name: "fetch"}, append(opts, otelretry.WithAttributes(attribute.String("region", "eu")))...)
			var seen []string
			look := func() { seen = append(seen, active(t, v.reader, false)) }
			p := v.h.Policy
			p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{Wait: func(context.Context, retry.Attempt) { look() }})
			_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
				look()
				if retry.AttemptNumber(ctx) == 1 {
					return errDown
				}
				return retry.Run(ctx, v.h.Policy.Named("inner"), func(context.Context) error { look(); return nil })
			})
			want := []string{
				"region=eu name=fetch state=attempting: 1",
				"region=eu name=fetch state=waiting: 1",
				"region=eu name=fetch state=attempting: 1",
				"region=eu name=fetch state=attempting: 1\nregion=eu name=inner state=attempting: 1",
			}
			compare(t, "active", strings.Join(seen, "\n--\n"), strings.Join(want, "\n--\n"))
			if got := active(t, v.reader, true); got != "0 0 0 0 " { // both states of both names
				t.Errorf("after the end %q, want four zeros", got)
			}
		})
	}
}

// Whatever ends a run, nothing of it stays.
func TestRunsThatEndBadlyAreNotSeen(t *testing.T) {
	v := view(t, retry.Policy{})
	p := v.h.Policy
	run := func(p retry.Policy, ctx context.Context, op func(context.Context) error) {
		defer func() { _ = recover() }()
		_ = retry.Run(ctx, p, op)
	}
	fail := func(context.Context) error { return errDown }
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	run(p, canceled, fail)
	inWait, cancel := context.WithCancel(t.Context())
	v.h.Clock.AfterFunc(50*ms, cancel)
	run(p, inWait, fail)
	run(p, t.Context(), fail)
	run(p, t.Context(), func(context.Context) error { panic("boom") })
	boom := func(context.Context, retry.Attempt) { panic("boom") }
	var stop func()
	for _, hooks := range []retry.Hooks{
		{Start: func(context.Context, retry.Policy) context.Context { panic("boom") }},
		{Attempt: func(context.Context, retry.Attempt) context.Context { panic("boom") }},
		{AttemptDone: boom},
		{Wait: boom},
		{Start: func(ctx context.Context, _ retry.Policy) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		}},
		{Attempt: func(ctx context.Context, _ retry.Attempt) context.Context { stop(); return ctx }},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop = cancel
		p.Hooks = retry.JoinHooks(v.hooks, hooks)
		run(p, ctx, fail)
	}
	v.deliver(t.Context(), 3, time.Second)
	if got := active(t, v.reader, true); got != "0 0 " {
		t.Errorf("after all ended %q, want two zeros", got)
	}
}

// Several Hooks of one provider report together, and one instrument is told of
// each set of attributes once.
func TestAllHooksOfAProviderAreSeen(t *testing.T) {
	v := view(t, retry.Policy{Name: "fetch"})
	other := retry.Policy{Name: "fetch", Hooks: otelretry.Hooks(otelretry.WithMeterProvider(v.meters))}
	third := retry.Policy{Name: "fetch", Hooks: otelretry.Hooks(otelretry.WithMeterProvider(v.meters), otelretry.WithAttributes(attribute.String("region", "eu")))}
	_ = retry.Run(t.Context(), v.h.Policy, func(ctx context.Context) error {
		return retry.Run(ctx, other, func(ctx context.Context) error {
			return retry.Run(ctx, third, func(ctx context.Context) error {
				compare(t, "active", active(t, v.reader, false), "name=fetch state=attempting: 2\nregion=eu name=fetch state=attempting: 1")
				return nil
			})
		})
	})
	runtime.KeepAlive(v.hooks)
	if got := active(t, v.reader, true); got != "0 0 0 0 " {
		t.Errorf("after the end %q, want four zeros", got)
	}
}

// A run belongs to the provider that its Hooks use when someone looks.
func TestRunsUnderwayFollowTheGlobalProvider(t *testing.T) {
	defer otel.SetMeterProvider(metricnoop.NewMeterProvider())
	p := retry.Policy{Name: "fetch", Hooks: otelretry.Hooks()}
	before, after := sdkmetric.NewManualReader(), sdkmetric.NewManualReader()
	old := sdkmetric.NewMeterProvider(sdkmetric.WithReader(before))
	otel.SetMeterProvider(old)
	_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
		return retry.Run(ctx, p, func(ctx context.Context) error {
			if got, want := active(t, before, false), "name=fetch state=attempting: 2"; got != want {
				t.Errorf("active: %s, want %s", got, want)
			}
			otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(after)))
			_ = retry.Run(ctx, p, succeed)
			if got, want := active(t, after, false), "name=fetch state=attempting: 2"; got != want {
				t.Errorf("active: %s, want %s", got, want)
			}
			if got := active(t, before, false); got != "" {
				t.Errorf("the old provider still reports %s", got)
			}
			otel.SetMeterProvider(old) // and back
			_ = retry.Run(ctx, p, succeed)
			if got, want := active(t, before, false), "name=fetch state=attempting: 2"; got != want {
				t.Errorf("active: %s, want %s", got, want)
			}
			return nil
		})
	})
	if got := active(t, before, true); got != "0 0 " {
		t.Errorf("after the end %q, want two zeros", got)
	}
}

// Hooks that nobody has any longer, and their providers, are not kept.
func TestHooksAndProvidersAreNotKept(t *testing.T) {
	freed := make(chan string, 2)
	func() {
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
		hooks := otelretry.Hooks(otelretry.WithMeterProvider(meters))
		_ = retry.Run(t.Context(), retry.Policy{Hooks: hooks}, succeed)
		runtime.AddCleanup(meters, func(string) { freed <- "provider" }, "")
	}()
	deadline := time.After(30 * time.Second)
	for {
		runtime.GC()
		select {
		case <-freed:
			return
		case <-deadline:
			t.Fatal("the provider is still there")
		case <-time.After(time.Millisecond):
		}
	}
}

// An operation fails from its first failure on until it succeeds, while it is underway. An attempt that is
// up for a minute is a success, as that of a session that is never over.
func TestHowLongAnOperationHasBeenFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		hooks := otelretry.Hooks(otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
		look := func(when string, want time.Duration) {
			t.Helper()
			var got []string
			for line := range strings.Lines(metrics(t, reader)) {
				if rest, ok := strings.CutPrefix(line, "retry.operation.failing [s] name=session: "); ok {
					got = append(got, strings.TrimSpace(rest))
				}
			}
			if want == 0 && got == nil {
				return
			}
			if !slices.Equal(got, []string{fmt.Sprint(want.Seconds())}) {
				t.Errorf("%s: failing for %v, want %v", when, got, want)
			}
		}
		p := retry.Policy{Name: "session", Backoff: retry.Constant(10 * time.Second), Hooks: hooks}
		lives := []struct {
			up, failing time.Duration // failing: when it begins
			err         error
		}{
			{0, 0, errDown},
			{time.Second, 10 * time.Second, errDown},
			{0, 21 * time.Second, retry.ErrRejected}, // a poll has got an answer
			{0, 0, errDown},
			{90 * time.Second, 10 * time.Second, errDown},
			{0, 0, errDown},
			{0, 10 * time.Second, nil},
		}
		n := 0
		_ = retry.Supervise(t.Context(), p, 0, func(context.Context) error {
			l := lives[n]
			look(fmt.Sprint("life ", n), l.failing)
			n++
			time.Sleep(l.up)
			if l.up >= time.Minute {
				look("a minute later", 0)
			}
			return l.err
		})
		look("after the end", 0)
	})
}

func TestObserveGate(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	opt := otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	clock := clockx.NewVirtual(time.Unix(0, 0))
	g := &retryqueue.Gate{Policy: retry.Policy{Clock: clock}}
	unregister, err := otelretry.ObserveGate("billing", g, opt)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "metrics", metrics(t, reader), "\nretry.gate.closed [{gate}] gate=billing: 0")
	for i := range 6 {
		if i == 5 {
			clock.Advance(time.Second)
		}
		done, err := g.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done("", errDown)
	}
	compare(t, "metrics", metrics(t, reader), "\nretry.gate.closed [{gate}] error.type=*errors.errorString gate=billing: 1")
	if err := unregister(); err != nil {
		t.Error(err)
	}
	if u, err := otelretry.ObserveGate("x", nil); err == nil || u() != nil {
		t.Errorf("a nil Gate: %v", err)
	}
}
