package untimed

import (
	"context"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/retryhttp"
)

type set = failover.Set[string]

var (
	models  = failover.Set[string]{Targets: []*failover.Target[string]{{Name: "large"}, {Name: "small"}}}
	timed   = set{Targets: []*failover.Target[string]{{Name: "large", Timeout: time.Second}, {Name: "small", Timeout: time.Minute}}}
	single  = set{Targets: []*failover.Target[string]{{Name: "large"}}}
	eu, us  = &failover.Target[string]{Name: "eu"}, &failover.Target[string]{Name: "us", Timeout: time.Second}
	regions = &set{Targets: []*failover.Target[string]{us, eu}}
	policy  = retry.Policy{Name: "ask"}
	patient = retry.Policy{AttemptTimeout: time.Minute}
)

func ask(context.Context, *failover.Target[string]) (int, error) { return 0, nil }

func calls(ctx context.Context, p retry.Policy, s *set) {
	_, _ = failover.Do(ctx, policy, &models, ask)         // want `a target that hangs eats the deadline`
	_, _ = failover.Do(ctx, retry.Policy{}, &models, ask) // want `a target that hangs eats the deadline`
	_, _ = failover.Do(ctx, policy, regions, ask)         // want `a target that hangs eats the deadline`
	_, _ = failover.Do(ctx, patient, &models, ask)
	_, _ = failover.Do(ctx, policy, &timed, ask)
	_, _ = failover.Do(ctx, policy, &single, ask)
	_, _ = failover.Do(ctx, p, &models, ask)
	_, _ = failover.Do(ctx, policy, s, ask)
}

// A stream lasts as long as its caller, and not as its attempt.
func stream(caller context.Context, client *http.Client) (*http.Response, error) {
	return failover.Do(caller, patient, &models, func(ctx context.Context, t *failover.Target[string]) (*http.Response, error) {
		req, err := http.NewRequestWithContext(caller, "GET", t.Value, nil)
		if err != nil {
			return nil, err
		}
		return retryhttp.Once[*http.Response](ctx, patient, client, req)
	})
}

func value(caller context.Context, client *http.Client) (int, error) {
	return failover.Do(caller, patient, &models, func(ctx context.Context, t *failover.Target[string]) (int, error) {
		req, err := http.NewRequestWithContext(caller, "GET", t.Value, nil) // want `the operation uses caller from outside`
		if err != nil {
			return 0, err
		}
		return retryhttp.Once[int](ctx, patient, client, req)
	})
}
