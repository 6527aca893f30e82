package faq_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retrydebug"
	"github.com/goretry/retry/retrygrpc"
	"github.com/goretry/retry/retryhttp"
)

// got is what a caller gets.
type got struct {
	resp *http.Response
	err  error
}

// scenarios are calls, by the beginnings of the first two cells of a row of terms.md.
var failures = map[string]func(context.Context, retry.Policy) got{
	"a status from 400 on|`Transport`": func(ctx context.Context, p retry.Policy) got {
		return send(ctx, &retryhttp.Transport{Policy: p, Base: answering(404, "")})
	},
	"a status from 400 on|`JSON`": func(ctx context.Context, p retry.Policy) got {
		return decoded(ctx, p, answering(404, ""))
	},
	"a code that is not retried|`retrygrpc`": func(ctx context.Context, p retry.Policy) got {
		return check(ctx, p, status.Error(codes.NotFound, "no such service"))
	},
	"`retry.Answer(err)`|`Do`": func(ctx context.Context, p retry.Policy) got {
		return got{err: retry.Run(ctx, p, func(context.Context) error { return retry.Answer(errors.New("no such key")) })}
	},
	"`retry.Stop(err)`|`Do`": func(ctx context.Context, p retry.Policy) got {
		return got{err: retry.Run(ctx, p, func(context.Context) error { return retry.Stop(errors.New("no")) })}
	},
	"an error of `Transport.Check`|`Transport`": func(ctx context.Context, p retry.Policy) got {
		return send(ctx, &retryhttp.Transport{Policy: p, Base: answering(404, ""), Check: func(*http.Response) error { return retry.Stop(errors.New("no")) }})
	},
	"a body that is not a T|`JSON`": func(ctx context.Context, p retry.Policy) got {
		return decoded(ctx, p, answering(200, "<html>"))
	},
	"a status that would be retried|`Transport`": func(ctx context.Context, p retry.Policy) got {
		return send(ctx, &retryhttp.Transport{Policy: p, Base: answering(503, "", "X-Should-Retry", "false")})
	},
	"a status or code that would be retried|`JSON`, `retrygrpc`": func(ctx context.Context, p retry.Policy) got {
		if ctx.Value(secondWay{}) != nil {
			return check(ctx, p, status.Error(codes.Unavailable, "overloaded"), "grpc-retry-pushback-ms", "-1")
		}
		return decoded(ctx, p, answering(503, "", "X-Should-Retry", "false"))
	},
	"attempts that come to a limit|all": func(ctx context.Context, p retry.Policy) got {
		if ctx.Value(secondWay{}) != nil {
			return send(ctx, &retryhttp.Transport{Policy: p, Base: answering(503, "")})
		}
		return decoded(ctx, p, answering(503, ""))
	},
	"a value that `Until`|`Do`": func(ctx context.Context, p retry.Policy) got {
		_, err := retry.Do(ctx, p, retry.Until(func(context.Context) (int, error) { return 1, nil }, func(int) bool { return false }))
		return got{err: err}
	},
	"the caller cancels|all": func(ctx context.Context, p retry.Policy) got {
		ctx, cancel := context.WithCancel(ctx)
		return got{err: retry.Run(ctx, p, func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		})}
	},
}

// secondWay is in the context of a row's second call.
type secondWay struct{}

type base func(*http.Request) (*http.Response, error)

func (f base) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answering(code int, body string, header ...string) base {
	return func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req}
		for i := 0; i < len(header); i += 2 {
			resp.Header.Set(header[i], header[i+1])
		}
		return resp, nil
	}
}

func newRequest(ctx context.Context) *http.Request {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
	if err != nil {
		panic(err)
	}
	return req
}

func send(ctx context.Context, t *retryhttp.Transport) got {
	resp, err := t.RoundTrip(newRequest(ctx))
	if err == nil {
		resp.Body.Close()
	}
	return got{resp, err}
}

func decoded(ctx context.Context, p retry.Policy, b base) got {
	_, err := retryhttp.JSON[map[string]any](ctx, p, &http.Client{Transport: b}, newRequest(ctx))
	return got{err: err}
}

// check calls a server that answers with an error, and sets a trailer.
func check(ctx context.Context, p retry.Policy, answer error, trailer ...string) got {
	listener := bufconn.Listen(1 << 16)
	defer listener.Close()
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		if trailer != nil {
			if err := grpc.SetTrailer(ctx, metadata.Pairs(trailer...)); err != nil {
				return nil, err
			}
		}
		return nil, answer
	}))
	grpc_health_v1.RegisterHealthServer(server, grpc_health_v1.UnimplementedHealthServer{})
	go server.Serve(listener)
	defer server.Stop()
	client := retrygrpc.Client{Policy: p, Idempotent: func(string) bool { return true }}
	cc, err := grpc.NewClient("passthrough:///server", append(client.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		return got{err: err}
	}
	defer cc.Close()
	_, err = grpc_health_v1.NewHealthClient(cc).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return got{err: err}
}

// counted is how often each of them has counted a failure.
type counted struct{ hooks, page, metrics int }

// The table of terms.md is what the hooks, the page and the metrics count, and what the caller gets.
func TestWhatHasFailed(t *testing.T) {
	page, err := os.ReadFile("../../docs/terms.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## What has failed")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for _, m := range regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$`).FindAllStringSubmatch(table, -1) {
		if m[1] == "what came" {
			continue
		}
		rows++
		ways := 0
		for name, call := range failures {
			came, by, _ := strings.Cut(name, "|")
			if !strings.HasPrefix(m[1], came) || m[2] != by {
				continue
			}
			ctxs := []context.Context{context.Background()}
			if strings.Contains(by, ",") || by == "all" {
				ctxs = append(ctxs, context.WithValue(ctxs[0], secondWay{}, true))
			}
			for _, ctx := range ctxs {
				ways++
				checkRow(t, name, m[3], m[4], m[5], ctx, call)
			}
		}
		if ways == 0 {
			t.Errorf("no call is like the row %q, %q", m[1], m[2])
		}
	}
	if rows != len(failures) {
		t.Errorf("the table has %d rows, want %d", rows, len(failures))
	}
}

func checkRow(t *testing.T, name, gets, attempt, run string, ctx context.Context, call func(context.Context, retry.Policy) got) {
	t.Helper()
	reader := metric.NewManualReader()
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	var recorder retrydebug.Recorder
	var attempts, runs counted
	var reason retry.Reason
	var failed, answered bool
	b := new(outcome)
	g := call(ctx, retry.Policy{
		Name: "a", MaxAttempts: 2, Backoff: retry.Constant(0), Budget: b,
		Hooks: retry.JoinHooks(otelretry.Hooks(otelretry.WithMeterProvider(meters)), recorder.Hooks(), retry.Hooks{
			AttemptDone: func(ctx context.Context, a retry.Attempt) { failed = errtext.Failed(ctx, a) },
			Done:        func(_ context.Context, s retry.Summary) { reason, answered = s.Reason, s.Answered },
		}),
	})
	if failed {
		attempts.hooks++
	}
	if reason != retry.ReasonNone && reason != retry.ReasonCanceled && !answered {
		runs.hooks++
	}
	runs.page, attempts.page = onPage(t, &recorder)
	runs.metrics, attempts.metrics = inMetrics(t, reader)
	attempts.page, attempts.metrics = min(attempts.page, 1), min(attempts.metrics, 1)

	wantAttempts, wantRuns := counted{}, counted{}
	if strings.HasPrefix(attempt, "failed") {
		wantAttempts = counted{1, 1, 1}
	}
	if strings.HasPrefix(run, "failed") {
		wantRuns = counted{1, 1, 1}
	}
	if attempts != wantAttempts {
		t.Errorf("%s: %+v count a failed attempt, the page says %q", name, attempts, attempt)
	}
	if runs != wantRuns {
		t.Errorf("%s: %+v count a failed run, the page says %q", name, runs, run)
	}
	if ok := strings.HasPrefix(run, "ok"); b.ok != ok {
		t.Errorf("%s: the budget heard a success: %t, the page says %q", name, b.ok, run)
	}
	e, _ := errors.AsType[*retry.Error](g.err)
	_, status := errors.AsType[*retryhttp.StatusError](g.err)
	var gives string
	switch {
	case g.resp != nil && retryhttp.GaveUp(g.resp) == nil:
		gives = "the response; `GaveUp` returns nil"
	case g.resp != nil:
		gives = "the response; `GaveUp` returns why"
	case e != nil && e.Answered && status:
		gives = "an `Answered` error with a `*StatusError`"
	case e != nil && e.Answered:
		gives = "an `Answered` error"
	case g.err != nil && e == nil && strings.HasPrefix(name, "a code"):
		gives = "the server's error"
	case errors.Is(g.err, retry.ErrRejected):
		gives = "the value and an error"
	case g.err != nil:
		gives = "an error"
	}
	if gives != gets && gets != "as above" {
		t.Errorf("%s: the caller gets %s, the page says %s", name, gives, gets)
	}
}

// outcome is a budget that knows how its latest run has ended.
type outcome struct{ ok bool }

func (o *outcome) Withdraw(retry.Withdrawal) bool { return true }
func (o *outcome) End(e retry.Outcome)            { o.ok = e.OK }

// onPage returns how many runs and attempts the page in the process counts as failed.
func onPage(t *testing.T, r *retrydebug.Recorder) (runs, attempts int) {
	t.Helper()
	w := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "/debug/retry?format=json", nil)
	r.Allow = func(*http.Request) bool { return true }
	r.ServeHTTP(w, req)
	var page struct {
		Operations []struct {
			Windows map[string]struct{ Runs, Failed, Permanent int }
			Causes  []struct {
				Attempts map[string]int
			}
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Operations) != 1 || page.Operations[0].Windows["1h"].Runs != 1 {
		t.Fatalf("the page has %s, %v", w.Body, err)
	}
	for _, c := range page.Operations[0].Causes {
		attempts += c.Attempts["1h"]
	}
	hour := page.Operations[0].Windows["1h"]
	return hour.Failed + hour.Permanent, attempts
}

// inMetrics returns how many runs that failed, and attempts, the metrics count.
func inMetrics(t *testing.T, reader metric.Reader) (runs, attempts int) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if why, _ := p.Attributes.Value("retry.reason"); m.Name == "retry.gave_up" && why.AsString() != "canceled" {
						runs += int(p.Value)
					}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					if m.Name == "retry.attempt.duration" && p.Attributes.HasValue("error.type") {
						attempts += int(p.Count)
					}
				}
			}
		}
	}
	return runs, attempts
}
