package otelretry_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retryhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// hedgeEvents returns the events of the spans that have ended, by span.
func hedgeEvents(spans *tracetest.SpanRecorder) (got string) {
	for _, s := range spans.Ended() {
		for _, e := range s.Events() {
			got += fmt.Sprintf("%s: %s%s\n", s.Name(), e.Name, attributes(e.Attributes))
		}
	}
	return got
}

// A hedged run: the event is on the span of its attempt.
func TestHedgeHookTellsOfSlowCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		reader := metric.NewManualReader()
		opts := []otelretry.Option{
			otelretry.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans))),
			otelretry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
			otelretry.WithAttributes(attribute.String("tier", "gold")),
		}
		h := &hedge.Hedge{Delay: 100 * time.Millisecond, Budget: &budget.Token{Cost: -1}, Hedged: otelretry.HedgeHook(opts...)}
		p := retry.Policy{Name: "get-user", Hooks: otelretry.Hooks(append(opts, otelretry.WithMeterProvider(metric.NewMeterProvider()))...)}
		for _, takes := range []time.Duration{10, 120, 1000} { // ms: not slow, lost, won
			_, _ = hedge.Do(t.Context(), p, h, func(ctx context.Context) (int, error) {
				d := takes * time.Millisecond
				if hedge.Number(ctx) == 2 {
					d = 50 * time.Millisecond
				}
				select {
				case <-ctx.Done():
				case <-time.After(d):
				}
				return 0, ctx.Err()
			})
		}
		compare(t, "events", hedgeEvents(spans), `
attempt 1 get-user: retry.hedge tier=gold hedge.started=2 hedge.winner=1 hedge.delay=0.1
attempt 1 get-user: retry.hedge tier=gold hedge.started=2 hedge.winner=2 hedge.delay=0.1`)
		compare(t, "metrics", metrics(t, reader), `
retry.hedges [{call}] hedge.result=lost name=get-user tier=gold: 1
retry.hedges [{call}] hedge.result=won name=get-user tier=gold: 1`)
	})
}

// refused is an error as hedge.Summary has it.
type refused string

func (r refused) Error() string     { return "hedge: refused" }
func (r refused) ErrorType() string { return "hedge." + string(r) }

func TestHedgeHookResults(t *testing.T) {
	otelretry.Forget()
	reader := metric.NewManualReader()
	spans := tracetest.NewSpanRecorder()
	ctx, span := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("t").Start(t.Context(), "s")
	hook := otelretry.HedgeHook(otelretry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	for _, s := range []hedge.Summary{
		{Started: 2, Winner: 2},
		{Started: 3, Winner: 3, Refused: refused("budget")},
		{Started: 2, Winner: 1, Refused: refused("failed")},
		{Started: 2},
		{Started: 1, Winner: 1, Refused: refused("budget")},
		{Started: 1, Winner: 1, Refused: refused("policy_budget")},
		{Started: 1, Winner: 1, Refused: refused("pushback")},
		{Started: 1}, // the caller has gone
		{Name: "a", Started: 1, Refused: refused("pushback")},
	} {
		hook(ctx, s)
	}
	span.End()
	compare(t, "metrics", metrics(t, reader), `
retry.hedges [{call}] hedge.result=lost: 2
retry.hedges [{call}] hedge.result=refused_budget: 1
retry.hedges [{call}] hedge.result=refused_policy_budget: 1
retry.hedges [{call}] hedge.result=refused_pushback name=a: 1
retry.hedges [{call}] hedge.result=refused_pushback: 1
retry.hedges [{call}] hedge.result=won: 2`)
	if got := len(spans.Ended()[0].Events()); got != 9 {
		t.Errorf("%d events, want 9", got)
	}
	if got := attributes(spans.Ended()[0].Events()[2].Attributes); got != " hedge.started=2 hedge.winner=1 hedge.delay=0 hedge.refused=failed" {
		t.Errorf("event %q", got)
	}
}

func TestHedgeHookWithoutSpanOrProvider(t *testing.T) {
	otelretry.HedgeHook()(t.Context(), hedge.Summary{Started: 2})
}

func TestHedgesOfManyNamesShareOne(t *testing.T) {
	otelretry.Forget()
	defer otelretry.Forget()
	reader := metric.NewManualReader()
	hook := otelretry.HedgeHook(otelretry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	for n := range 300 {
		hook(t.Context(), hedge.Summary{Name: fmt.Sprint("name ", n), Started: 2, Winner: 2})
	}
	if n := strings.Count(metrics(t, reader), "\n"); n != 257 {
		t.Errorf("%d rows, want 256 names and the others", n)
	}
}

func TestObserveHedgeAndLimit(t *testing.T) {
	reader := metric.NewManualReader()
	opt := otelretry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	l := &limit.Limit{Max: 7}
	if _, err := l.Enter(t.Context(), retry.Entry{}); err != nil {
		t.Fatal(err)
	}
	var unregister []func() error
	for _, observe := range []func() (func() error, error){
		func() (func() error, error) { return otelretry.ObserveHedge("users", &hedge.Hedge{}, opt) },
		func() (func() error, error) {
			return otelretry.ObserveHedge("orders", &hedge.Hedge{Delay: 20 * time.Millisecond}, opt)
		},
		func() (func() error, error) {
			return otelretry.ObserveHedge("never", &hedge.Hedge{Delay: hedge.Never}, opt)
		},
		func() (func() error, error) { return otelretry.ObserveLimit("users", l, opt) },
		func() (func() error, error) { return otelretry.ObserveLimit("calm", new(limit.Adaptive), opt) },
		func() (func() error, error) { return otelretry.ObserveLimit("bounded", &limit.Adaptive{Max: 9}, opt) },
	} {
		u, err := observe()
		if err != nil {
			t.Errorf("observing: %v", err)
		}
		unregister = append(unregister, u)
	}
	compare(t, "metrics", metrics(t, reader), `
retry.hedge.delay [s] hedge.name=orders: 0.02
retry.hedge.delay [s] hedge.name=users: 10
retry.limit.in_flight [{attempt}] limit=bounded: 0
retry.limit.in_flight [{attempt}] limit=calm: 0
retry.limit.in_flight [{attempt}] limit=users: 1
retry.limit.places [{attempt}] limit=bounded: 9
retry.limit.places [{attempt}] limit=users: 7`)
	for _, u := range unregister {
		if err := u(); err != nil {
			t.Errorf("unregister: %v", err)
		}
	}
	compare(t, "metrics", metrics(t, reader), "")
	if u, err := otelretry.ObserveHedge("x", nil); err == nil || u() != nil {
		t.Errorf("a nil Hedge: %v", err)
	}
	for _, none := range []interface {
		InFlight() int
		Places() int
	}{nil, (*limit.Limit)(nil), (*limit.Adaptive)(nil)} {
		if u, err := otelretry.ObserveLimit("x", none); err == nil || u() != nil {
			t.Errorf("%T: %v", none, err)
		}
	}
}

func TestDropHook(t *testing.T) {
	reader := metric.NewManualReader()
	spans := tracetest.NewSpanRecorder()
	ctx, span := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("t").Start(t.Context(), "s")
	hook := otelretry.DropHook(otelretry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		otelretry.WithAttributes(attribute.String("tier", "gold")))
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	hook(ctx, httptrace.GotConnInfo{Conn: near})
	hook(ctx, httptrace.GotConnInfo{})
	hook(t.Context(), httptrace.GotConnInfo{Conn: far})
	span.End()
	compare(t, "metrics", metrics(t, reader), `
retry.connections_dropped [{connection}] tier=gold: 3`)
	events := spans.Ended()[0].Events()
	if len(events) != 2 || events[0].Name != "retry.connection_dropped" || attributes(events[0].Attributes) != " tier=gold network.peer.address=pipe" {
		t.Errorf("events %+v", events)
	}
	otelretry.DropHook()(t.Context(), httptrace.GotConnInfo{}) // no provider
}

func ExampleDropHook() {
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy:  retry.Policy{AttemptTimeout: time.Second, Hooks: otelretry.Hooks()},
		Dropped: otelretry.DropHook(),
	}}
	_ = client
}

func ExampleHedgeHook() {
	policy := retry.Policy{Name: "get-user", Hooks: otelretry.Hooks()}
	users := &hedge.Hedge{Hedged: otelretry.HedgeHook()}
	unregister, err := otelretry.ObserveHedge("users-api", users)
	if err != nil {
		fmt.Println(err)
	}
	defer func() { _ = unregister() }()

	user, err := hedge.Do(context.Background(), policy, users, func(context.Context) (string, error) { return "ada", nil })
	fmt.Println(user, err)
	// Output: ada <nil>
}

func ExampleObserveLimit() {
	users := &limit.Limit{Max: 20}
	unregister, err := otelretry.ObserveLimit("users-api", users)
	if err != nil {
		fmt.Println(err)
	}
	defer func() { _ = unregister() }()
	fmt.Println(users.Places())
	// Output: 20
}
