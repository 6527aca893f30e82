//go:build failsafe

package main

import (
	"context"
	"errors"
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

// ledgerOptions are those of client.go with failsafe-go, for comparison: the same attempts,
// waits, timeouts and hedges, and its own budget and limit. What a server says about
// retries it does not read, so this does. It counts nothing.
func ledgerOptions(retry.Hooks, *retrydebug.Recorder) []grpc.DialOption {
	shared := budget.New() // a fifth of the calls in flight, and at least three
	transfer := failsafe.With(
		retries(shared, 4, 20*time.Millisecond, 300*time.Millisecond),
		adaptivelimiter.NewBuilder[proto.Message]().WithLimits(8, 512, 64).Build(),
		timeout.New[proto.Message](700*time.Millisecond))
	balance := failsafe.With(
		retries(shared, 3, 10*time.Millisecond, 100*time.Millisecond),
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
				ctx := e.Context()
				if n := e.Retries(); n > 0 {
					ctx = metadata.AppendToOutgoingContext(ctx, "grpc-previous-rpc-attempts", strconv.Itoa(n))
				}
				var trailer metadata.MD
				own := reply.(proto.Message).ProtoReflect().New().Interface() // hedges would share one
				err := invoke(ctx, method, req, own, cc, append(opts, grpc.WaitForReady(true), grpc.Trailer(&trailer))...)
				return own, heed(ctx, err, trailer)
			})
			if errors.Is(err, timeout.ErrExceeded) {
				return status.Error(codes.DeadlineExceeded, err.Error())
			}
			if err == nil {
				proto.Merge(reply.(proto.Message), got)
			}
			return err
		}))
}

func retries(shared budget.Budget, attempts int, base, most time.Duration) retrypolicy.RetryPolicy[proto.Message] {
	return retrypolicy.NewBuilder[proto.Message]().
		HandleIf(func(_ proto.Message, err error) bool {
			if errors.Is(err, timeout.ErrExceeded) || errors.Is(err, adaptivelimiter.ErrExceeded) {
				return true
			}
			refused := &refusal{}
			if errors.As(err, &refused) {
				return false
			}
			switch status.Code(err) {
			case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
				return true
			}
			return false
		}).
		WithMaxAttempts(attempts).
		WithBackoff(base/2, most/2).WithJitterFactor(.99). // which is full jitter of base and most
		WithBudget(shared).ReturnLastFailure().Build()
}

// refusal is the error of a server that must not be called again.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// heed reads what the server says about retries. It waits here, because WithDelayFunc would
// replace the backoff.
func heed(ctx context.Context, err error, trailer metadata.MD) error {
	var wait time.Duration
	if said := trailer.Get("grpc-retry-pushback-ms"); len(said) > 0 {
		ms, bad := strconv.Atoi(said[0])
		if bad != nil || ms < 0 {
			return &refusal{err}
		}
		wait = time.Duration(ms) * time.Millisecond
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			wait = info.RetryDelay.AsDuration()
		}
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	return err
}
