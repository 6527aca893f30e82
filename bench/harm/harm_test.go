package harm

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/adaptivethrottler"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/harm"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrygrpc"
	"github.com/goretry/retry/retryhttp"
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1) // a bubble runs one goroutine at a time; more only look for work
	os.Exit(m.Run())
}

var update = flag.Bool("update", false, "write owed.txt and the section of EXPERIMENTS.md")

var long = os.Getenv("RETRY_LONG") == "1"

// ours are subjects that need a module. They keep the bound.
var ours = []harm.Subject{{
	Name: "retrygrpc.Client",
	With: func(p *harm.Process) harm.Client {
		h := new(hedge.Hedge)
		p.Policy.Budget = new(retry.EarnedBudget)
		p.Policy.Guards = []retry.Guard{&pace.Pace{Quota: p.Quota, Burst: p.Burst}, &limit.Limit{Max: 2 * p.Peak}} // a hedge has a place too
		return dial(p, func(string) *hedge.Hedge { return h })
	},
	Against: "Client with a budget",
	Without: func(p *harm.Process) harm.Client {
		p.Policy.Budget = new(retry.EarnedBudget)
		return dial(p, nil)
	},
}}

// rivals are others' guards. Nothing is asked of them.
var rivals = []harm.Subject{
	failsafeGo("failsafe-go's adaptivelimiter", func() failsafe.Policy[*http.Response] {
		return adaptivelimiter.NewWithDefaults[*http.Response]()
	}),
	failsafeGo("failsafe-go's adaptivelimiter with a queue", func() failsafe.Policy[*http.Response] {
		return adaptivelimiter.NewBuilder[*http.Response]().WithQueueing(2, 3).Build()
	}),
	failsafeGo("failsafe-go's adaptivethrottler", func() failsafe.Policy[*http.Response] {
		return adaptivethrottler.NewBuilder[*http.Response]().HandleIf(func(resp *http.Response, err error) bool {
			return err != nil || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500
		}).Build()
	}),
	around("sony/gobreaker", func(*harm.Process) func(context.Context, func() error) error {
		b := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{})
		return func(_ context.Context, send func() error) error {
			_, err := b.Execute(func() (struct{}, error) { return struct{}{}, send() })
			return err
		}
	}),
	around("x/time/rate.Limiter with the quota", func(p *harm.Process) func(context.Context, func() error) error {
		l := rate.NewLimiter(rate.Limit(p.Quota), int(p.Burst))
		return func(ctx context.Context, send func() error) error {
			if err := l.Wait(ctx); err != nil {
				return err
			}
			return send()
		}
	}),
}

func TestHarm(t *testing.T) {
	table := harm.Measure(t, ours, long, "owed.txt")
	if *update {
		table.Update(t, "owed.txt")
	}
	table.Check(t, "owed.txt")
}

// With -v it prints the whole table. Some of the others draw their own random numbers, so that
// figures vary a little.
func TestRivals(t *testing.T) {
	table := harm.Measure(t, rivals, long, "")
	if *update {
		table.Summarize(t, "../EXPERIMENTS.md", "harm of others")
	}
}

// failsafeGo has a policy of failsafe-go between its retries and its timeout, in its RoundTripper.
func failsafeGo(name string, policy func() failsafe.Policy[*http.Response]) harm.Subject {
	client := func(p *harm.Process, policies ...failsafe.Policy[*http.Response]) harm.Client {
		if d := p.Policy.AttemptTimeout; d > 0 {
			policies = append(policies, timeout.New[*http.Response](d))
		}
		retries := failsafehttp.NewRetryPolicyBuilder().WithMaxAttempts(p.Policy.MaxAttempts).
			WithBackoff(100*time.Millisecond, 20*time.Second).Build()
		policies = append([]failsafe.Policy[*http.Response]{retries}, policies...)
		return harm.Over(&http.Client{Transport: failsafehttp.NewRoundTripper(harm.Wire, policies...)}, http.MethodGet)
	}
	return harm.Subject{
		Name: name, With: func(p *harm.Process) harm.Client { return client(p, policy()) },
		Against: "failsafe-go's retries", Without: func(p *harm.Process) harm.Client { return client(p) },
	}
}

// around has something around each attempt of a run.
func around(name string, guard func(*harm.Process) func(context.Context, func() error) error) harm.Subject {
	return harm.Subject{Name: name, Against: "policy", Without: harm.Plain, With: func(p *harm.Process) harm.Client {
		attempt := guard(p)
		return func(ctx context.Context, c *harm.Call) error {
			return retry.Run(ctx, c.Of(p.Policy), func(ctx context.Context) error {
				return attempt(ctx, func() error {
					_, err := c.Send(ctx, 0)
					return err
				})
			})
		}
	}}
}

// dial returns a client of a connection on which no byte is sent: behind the Client's interceptor is the world.
func dial(p *harm.Process, h func(string) *hedge.Hedge) harm.Client {
	client := &retrygrpc.Client{Policy: p.Policy, Idempotent: func(string) bool { return true }, Hedge: h}
	conn, err := grpc.NewClient("passthrough:///provider", append(client.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			_, err := harm.CallOf(ctx).Send(ctx, 0)
			return answer(err)
		}))...)
	if err != nil {
		panic(err)
	}
	context.AfterFunc(p.Until, func() { conn.Close() })
	return func(ctx context.Context, c *harm.Call) error {
		return conn.Invoke(c.With(ctx), "/provider/Answer", new(emptypb.Empty), new(emptypb.Empty), retrygrpc.WithPolicy(c.Of))
	}
}

// answer returns what a gRPC server answers in place of an HTTP server's answer.
func answer(err error) error {
	if err == nil {
		return nil
	}
	s, ok := errors.AsType[*retryhttp.StatusError](err)
	switch {
	case !ok && errors.Is(err, context.DeadlineExceeded), !ok && errors.Is(err, context.Canceled):
		return status.FromContextError(err).Err()
	case !ok:
		return status.Error(codes.Unavailable, err.Error())
	case s.Code == http.StatusTooManyRequests && s.Hint > 0:
		asks, err := status.New(codes.ResourceExhausted, "too many requests").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(s.Hint)})
		if err != nil {
			panic(err)
		}
		return asks.Err()
	case s.Code == http.StatusTooManyRequests:
		return status.Error(codes.ResourceExhausted, "too many requests")
	case s.Code == http.StatusForbidden:
		return status.Error(codes.PermissionDenied, "forbidden")
	}
	return status.Error(codes.Unavailable, "unavailable")
}
