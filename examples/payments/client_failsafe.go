//go:build failsafe

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/payments/ledgerpb"
	"github.com/goretry/retry/retrydebug"
	"github.com/goretry/retry/retrygrpc"
)

// The comparison. Both have attempts, timeouts, hedges, the balancer, and the bounds of the
// limit as withRetry has, and failsafe-go's own budget and limit. The first also waits as
// withRetry does. The second has what failsafe-go has for that: its backoff with its
// jitter, and a limit with a queue. retry-unlimited is this library without a limit, to tell what
// that costs.
func init() {
	clients["retry-unlimited"] = func(hooks retry.Hooks, page *retrydebug.Recorder) []grpc.DialOption {
		return withRetry(&retry.EarnedBudget{}, false, hooks, page)
	}
	limiter := func() adaptivelimiter.Builder[proto.Message] {
		return adaptivelimiter.NewBuilder[proto.Message]().WithLimits(8, 512, 64)
	}
	clients["failsafe"] = func(retry.Hooks, *retrydebug.Recorder) []grpc.DialOption {
		return withFailsafe(limiter().Build(), func(b builder, base, most time.Duration) builder {
			return b.WithDelayFunc(func(e failsafe.ExecutionAttempt[proto.Message]) time.Duration {
				// Not by WithJitterFactor, which would also make hints shorter.
				hint := said(e.LastError()).wait
				return hint + rand.N(max(hint/10, min(most, base<<min(e.Retries(), 10))))
			})
		})
	}
	clients["failsafe-own"] = func(retry.Hooks, *retrydebug.Recorder) []grpc.DialOption {
		queue := limiter().WithQueueing(2, 3).WithMaxWaitTime(500 * time.Millisecond)
		return withFailsafe(queue.Build(), func(b builder, base, most time.Duration) builder {
			return b.WithBackoff(base, most).WithJitterFactor(.25).WithDelayFunc(func(e failsafe.ExecutionAttempt[proto.Message]) time.Duration {
				if hint := said(e.LastError()).wait; hint > 0 {
					return hint
				}
				return -1 // the backoff
			})
		})
	}
}

type builder = retrypolicy.Builder[proto.Message]

func withFailsafe(places adaptivelimiter.AdaptiveLimiter[proto.Message], waits func(b builder, base, most time.Duration) builder) []grpc.DialOption {
	shared := budget.New() // a fifth of the calls in flight, and at least three
	retries := func(attempts int, base, most time.Duration) retrypolicy.RetryPolicy[proto.Message] {
		b := retrypolicy.NewBuilder[proto.Message]().HandleIf(again).WithMaxAttempts(attempts).WithBudget(shared).ReturnLastFailure()
		return waits(b, base, most).Build()
	}
	transfer := failsafe.With(
		retries(4, 20*time.Millisecond, 300*time.Millisecond),
		places,
		timeout.New[proto.Message](700*time.Millisecond))
	balance := failsafe.With(
		retries(3, 10*time.Millisecond, 100*time.Millisecond),
		timeout.New[proto.Message](300*time.Millisecond),
		hedgepolicy.NewBuilderWithDelayQuantile[proto.Message](.95, 200, 20).WithBudget(shared).Build())

	// The balancer must know which attempts are of one call, so a Client goes around them.
	once := &retrygrpc.Client{Policy: retry.Policy{MaxAttempts: 1}}
	return append(once.DialOptions(), grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			executor := transfer
			if method == ledgerpb.Ledger_Balance_FullMethodName {
				executor = balance
			}
			got, err := executor.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[proto.Message]) (proto.Message, error) {
				var trailer metadata.MD
				own := reply.(proto.Message).ProtoReflect().New().Interface() // hedges would share one
				err := invoke(e.Context(), method, req, own, cc, append(opts, grpc.WaitForReady(true), grpc.Trailer(&trailer))...)
				return own, heed(err, trailer)
			})
			if err == nil {
				proto.Merge(reply.(proto.Message), got)
			} else if _, ok := status.FromError(err); !ok { // a limit or a timeout of its own
				err = status.Error(codes.Unavailable, err.Error())
			}
			return err
		}))
}

// again reports whether a call that failed is made again.
func again(_ proto.Message, err error) bool {
	if errors.Is(err, timeout.ErrExceeded) || errors.Is(err, adaptivelimiter.ErrExceeded) {
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		return !said(err).refused
	}
	return false
}

// answered is an error with what the server says about retries, which failsafe-go does not
// read by itself.
type answered struct {
	error
	wait    time.Duration
	refused bool
}

func (a answered) Unwrap() error { return a.error }

func said(err error) answered {
	a, _ := errors.AsType[answered](err)
	return a
}

func heed(err error, trailer metadata.MD) error {
	if err == nil {
		return nil
	}
	a := answered{error: err}
	if pushback := trailer.Get("grpc-retry-pushback-ms"); len(pushback) > 0 {
		ms, bad := strconv.Atoi(pushback[0])
		a.refused = bad != nil || ms < 0
		a.wait = time.Duration(max(ms, 0)) * time.Millisecond
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			a.wait = max(a.wait, info.RetryDelay.AsDuration())
		}
	}
	return a
}
