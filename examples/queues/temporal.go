package queues

import (
	"context"
	"errors"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
)

// TemporalInterceptor retries the activities of Temporal by a policy: by its classes, its hints and
// its hooks. The activity's own RetryPolicy must allow more attempts than the policy, and its
// ScheduleToCloseTimeout more time, or Temporal ends it first.
//
// It lacks "not yet", since Temporal counts each attempt. Set MaxAttempts to retry.Unlimited for
// activities that say so often.
type TemporalInterceptor struct {
	interceptor.WorkerInterceptorBase
	Policy func(activityType string) retry.Policy
}

func (i *TemporalInterceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &temporalActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, i}
}

type temporalActivity struct {
	interceptor.ActivityInboundInterceptorBase
	i *TemporalInterceptor
}

func (a *temporalActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (value any, result error) {
	info := activity.GetInfo(ctx)
	m := retryqueue.Delivery{Number: int(info.Attempt), Counted: true, Stored: info.ScheduledTime}
	failed := retryqueue.ErrPanicked
	defer func() {
		if v := recover(); v != nil { // Temporal would wait as it pleases
			value = nil
		}
	}()
	_ = m.Handle(ctx, a.i.Policy(info.ActivityType.Name), func(ctx context.Context) error {
		value, failed = a.Next.ExecuteActivity(ctx, in)
		if errors.Is(failed, activity.ErrResultPending) { // it is completed elsewhere
			return nil
		}
		return failed
	}, func(_ context.Context, d retryqueue.Decision) error {
		switch d.Action {
		case retryqueue.Ack:
			result = failed // nil, an Answer, or ErrResultPending
		case retryqueue.Undecided:
			result = errors.Join(context.Cause(ctx), failed)
		case retryqueue.Retry:
			result = temporal.NewApplicationErrorWithOptions(failed.Error(), "retry", temporal.ApplicationErrorOptions{Cause: failed, NextRetryDelay: d.Delay})
		case retryqueue.Dead:
			result = temporal.NewApplicationErrorWithOptions(d.Err.Error(), d.Err.Reason.String(), temporal.ApplicationErrorOptions{Cause: d.Err, NonRetryable: true})
		}
		return nil
	})
	return value, result
}
