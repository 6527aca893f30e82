package queues_test

import (
	"context"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/queues"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// It runs in the virtual time of Temporal's test suite.
func TestTemporal(t *testing.T) {
	for what, want := range map[string]struct {
		runs int
		took time.Duration
		err  bool
	}{
		"good": {1, 0, false}, "hint": {2, 3 * time.Second, false}, "malformed": {1, 0, true}, "down": {4, 3 * time.Second, true}, "panics": {4, 3 * time.Second, true},
	} {
		t.Run(what, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			i := &queues.TemporalInterceptor{Policy: func(string) retry.Policy {
				return retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(time.Second), Rand: func() float64 { return 0 }}
			}}
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{i}})
			r := newRuns()
			work := func(context.Context) error { return r.handle(what) }
			env.RegisterActivity(work)
			var took time.Duration
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				begun := workflow.Now(ctx)
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
					StartToCloseTimeout: time.Minute,
					RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Millisecond, MaximumAttempts: 50}, // looser than the policy
				})
				err := workflow.ExecuteActivity(ctx, work).Get(ctx, nil)
				took = workflow.Now(ctx).Sub(begun)
				return err
			})
			if got := len(r.at[what]); got != want.runs || took.Round(time.Second) != want.took || (env.GetWorkflowError() != nil) != want.err {
				t.Errorf("it ran %d times in %v, and failed with %v, want %d and %v", got, took, env.GetWorkflowError(), want.runs, want.took)
			}
		})
	}
}
