package retryjournal_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	otelretry "github.com/goretry/retry/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/examples/adapter/journal"
	"github.com/goretry/retry/examples/adapter/retryjournal"
	"github.com/goretry/retry/retrytest"
)

// cluster is a journal that fails by a script. Each node is a connection.
type cluster struct {
	script []error
	calls  []string // the node of each call
}

type node struct {
	*cluster
	name string
}

func (n node) Append(context.Context, string) (int, error) {
	n.calls = append(n.calls, n.name)
	if err := n.script[len(n.calls)-1]; err != nil {
		return 0, err
	}
	return 7, nil
}

func (c *cluster) dial(name string) journal.Conn { return node{c, name} }

func TestAppend(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, tt := range map[string]struct {
		script []error
		calls  string
		reason retry.Reason
		waited time.Duration
	}{
		"at once":                     {[]error{nil}, "[a]", retry.ReasonNone, 0},
		"moved":                       {[]error{&journal.Fault{Code: journal.Moved, Node: "b"}, nil}, "[a b]", retry.ReasonNone, time.Second},
		"busy":                        {[]error{&journal.Fault{Code: journal.Busy, Wait: time.Minute}, nil}, "[a a]", retry.ReasonNone, time.Minute + time.Second},
		"busy for too long":           {[]error{&journal.Fault{Code: journal.Busy, Wait: time.Hour}}, "[a]", retry.ReasonRetryAfter, 0},
		"no connection":               {[]error{dial, nil}, "[a a]", retry.ReasonNone, time.Second},
		"may have been appended":      {[]error{&journal.Fault{Code: journal.Timeout}}, "[a]", retry.ReasonNotIdempotent, 0},
		"a cut connection":            {[]error{&net.OpError{Op: "read", Err: errors.New("reset")}}, "[a]", retry.ReasonNotIdempotent, 0},
		"invalid":                     {[]error{&journal.Fault{Code: journal.Invalid}}, "[a]", retry.ReasonPermanent, 0},
		"busy, and the budget's last": {[]error{&journal.Fault{Code: journal.Busy}, &journal.Fault{Code: journal.Busy}}, "[a a]", retry.ReasonBudget, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			spans := tracetest.NewInMemoryExporter()
			tracer := trace.NewTracerProvider(trace.WithSyncer(spans))
			policy := retry.Policy{Name: "append", Backoff: retry.Constant(time.Second), Budget: &budget.Token{Capacity: 1, ThrottleCost: 1}}
			policy.Hooks = retry.JoinHooks(otelretry.Hooks(otelretry.WithTracerProvider(tracer)), retry.Hooks{
				Start: func(ctx context.Context, p retry.Policy) context.Context {
					if p.NonIdempotent || p.Classify != nil || p.Budget == nil {
						t.Errorf("hooks see another policy: %+v", p)
					}
					return ctx
				},
			})
			h := retrytest.New(t, policy)
			journal := &cluster{script: tt.script}
			client := &retryjournal.Client{Dial: journal.dial, Node: "a", Policy: h.Policy}
			number, err := client.Append(t.Context(), "record")
			if got := fmt.Sprint(journal.calls); got != tt.calls || (number == 7) != (err == nil) {
				t.Errorf("calls of %v, want %v; %d, %v", got, tt.calls, number, err)
			}
			h.AssertReason(tt.reason)
			if got := h.Summary().Waited; got != tt.waited {
				t.Errorf("waited %v, want %v", got, tt.waited)
			}
			if want := 1 + len(tt.script); len(spans.GetSpans()) < want {
				t.Errorf("%d spans, want one of the run and one of each attempt", len(spans.GetSpans()))
			}
		})
	}
}

// docs/adapters.md says when a callback may refuse a retry: before Judged. Cancel is for a caller who leaves.
func TestACallbackThatRefusesARetry(t *testing.T) {
	busy := retry.After(errors.New("busy"), time.Minute)
	refuses := func(v retry.Verdict) bool { return v.Hint >= time.Minute }
	for name, tt := range map[string]struct {
		edit   func(*retry.Policy)
		try    func(p retry.Policy, a *retry.Attempts)
		reason retry.Reason
		waits  int
	}{
		"before Judged": {try: func(p retry.Policy, a *retry.Attempts) {
			v := p.Judge(busy)
			if refuses(v) {
				v.End = retry.ReasonPermanent
			}
			a.Judged(v)
		}, reason: retry.ReasonPermanent},
		"by Cancel": {try: func(p retry.Policy, a *retry.Attempts) {
			if v := p.Judge(busy); a.Judged(v) && refuses(v) {
				a.Cancel(errors.New("the callback refuses"))
			}
		}, reason: retry.ReasonCanceled, waits: 1},
		"by the policy": {edit: func(p *retry.Policy) { p.MaxRetryAfter = time.Minute - 1 },
			try: func(p retry.Policy, a *retry.Attempts) { a.Done(busy) }, reason: retry.ReasonRetryAfter},
	} {
		waits := 0
		p := retry.Policy{Hooks: retry.Hooks{Wait: func(context.Context, retry.Attempt) { waits++ }}}
		if tt.edit != nil {
			tt.edit(&p)
		}
		a := p.Attempts(t.Context())
		for a.Next() {
			tt.try(p, a)
		}
		a.Close()
		e, ok := errors.AsType[*retry.Error](a.Err())
		if !ok || e.Reason != tt.reason || e.Attempts != 1 || waits != tt.waits {
			t.Errorf("%s: %v after %d waits, want %v after %d", name, a.Err(), waits, tt.reason, tt.waits)
		}
	}
}
