package freshstate

import (
	"context"
	"net/http"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrydebug"
	"github.com/goretry/retry/retryhttp"
)

func guarded(ctx context.Context, p retry.Policy) {
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{&limit.Limit{Max: 5}}}, op)              // want `this limit.Limit is new for each call`
	_, _ = retryhttp.JSON[int](ctx, retry.Policy{Guards: []retry.Guard{new(pace.Pace)}}, nil, nil) // want `this pace.Pace is new for each call` `this Pace limits nothing`
	p.Guards = append(p.Guards, &limit.Limit{Max: 5})                                              // want `this limit.Limit is new for each call`
	_ = retry.Run(ctx, p, op)
}

var eu, us = &failover.Target[string]{Name: "eu"}, &failover.Target[string]{Name: "us"}

func elsewhere(ctx context.Context, p retry.Policy, ask func(context.Context, *failover.Target[string]) (int, error)) {
	_, _ = failover.Do(ctx, p, &failover.Set[string]{Targets: []*failover.Target[string]{{Name: "eu"}}}, ask)               // want `this failover.Target.* is new for each call`
	_, _ = failover.Do(ctx, p, &failover.Set[string]{Targets: []*failover.Target[string]{&failover.Target[string]{}}}, ask) // want `this failover.Target.* is new for each call`
	_, _ = failover.Do(ctx, p, &failover.Set[string]{Targets: []*failover.Target[string]{us, eu}}, ask)                     // the order of a session
}

func admits(ctx context.Context) {
	p := retry.Policy{Guards: []retry.Guard{&limit.Limit{Max: 5}}} // want `this limit.Limit is new for each call`
	leave, err := p.Admit(ctx, retry.Entry{})
	if err == nil {
		leave(retry.Exit{})
	}
}

// mine is somebody's own guard, which counts.
type mine struct {
	mu sync.Mutex
	n  int
}

func (*mine) Enter(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, nil }
func (*mine) Leave(retry.Pass, retry.Exit)                           {}

// stateless only looks at what it gets.
type stateless struct{ log func(string) }

func (stateless) Enter(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, nil }
func (stateless) Leave(retry.Pass, retry.Exit)                           {}

func own(ctx context.Context) {
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{&mine{}}}, op) // want `this freshstate.mine is new for each call`
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{stateless{}, &stateless{}}}, op)
}

func hedged(ctx context.Context, p retry.Policy) {
	_, _ = hedge.Do(ctx, p, &hedge.Hedge{Budget: &budget.Token{}}, value) // want `this hedge.Hedge is new for each call`
	var h hedge.Hedge                                                     // want `this hedge.Hedge is new for each call`
	_, _ = hedge.DoValue(ctx, p, &h, value, hedge.Value[int]{})
	each := hedge.Hedge{} // used for all of them
	for range 3 {
		_, _ = hedge.Do(ctx, p, &each, value)
	}
}

func recorded(ctx context.Context) {
	r := &retrydebug.Recorder{} // want `this retrydebug.Recorder is new for each call`
	_ = retry.Run(ctx, retry.Policy{Hooks: retry.JoinHooks(r.Hooks(), retry.Hooks{})}, op)
}

var perRequest = retryhttp.Transport{
	Guards: func(*http.Request) []retry.Guard { return []retry.Guard{&limit.Limit{Max: 5}, places} }, // want `the function that makes this limit.Limit is called for each call`
	Hedge:  func(string) *hedge.Hedge { return &hedge.Hedge{} },                                      // want `the function that makes this hedge.Hedge is called for each call`
}

var places = &limit.Limit{Max: 5}

func serve(h http.Handler) http.Handler {
	return retryhttp.LimitHandler(h, func(*http.Request) []retry.Guard {
		return []retry.Guard{&limit.Limit{Max: 5}} // want `the function that makes this limit.Limit is called for each call`
	})
}

func rightGuards(ctx context.Context, h http.Handler) http.Handler {
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{places}}, op)
	all := &limit.Limit{Max: 10}
	return retryhttp.LimitHandler(h, func(*http.Request) []retry.Guard { return []retry.Guard{all} })
}

// A Pace whose quota is shared counts elsewhere.
func sharedPace(ctx context.Context, s pace.Store) error {
	p := &pace.Pace{Quota: 5}
	if err := p.Share(ctx, s); err != nil {
		return err
	}
	return retry.Run(ctx, retry.Policy{Guards: []retry.Guard{p}}, op)
}
