package freshbudget

import (
	"context"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retryhttp"
)

func op(context.Context) error { return nil }

func wrong(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Budget: &budget.Token{Capacity: 10}}, op) // want `this budget.Token is new for each run`
}

func earned(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Budget: &retry.EarnedBudget{}}, op) // want `this EarnedBudget is new for each run`
}

func alsoWrong(ctx context.Context) error {
	budget := &budget.Ratio{} // want `this budget.Ratio is new for each run`
	p := retry.Policy{Budget: budget}
	return retry.Run(ctx, p, op)
}

func withNew(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Budget: new(budget.Ratio)}, op) // want `this budget.Ratio is new for each run`
}

func inLoop(ctx context.Context) {
	for range 10 {
		_ = retry.Run(ctx, retry.Policy{Budget: &budget.Token{}}, op) // want `is new for each run`
	}
}

var wrongPerHost = retryhttp.Transport{
	Budget: func(string) retry.Budget { return &budget.Token{} }, // want `new each time: use a retry.PerKey`
}

var shared = &budget.Token{}

func right(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Budget: shared}, op)
}

func loop(ctx context.Context) {
	budget := &budget.Token{}
	for range 10 {
		_ = retry.Run(ctx, retry.Policy{Budget: budget}, op)
	}
}

func literal(ctx context.Context) func() error {
	p := retry.Policy{Budget: &budget.Token{}}
	return func() error { return retry.Run(ctx, p, op) }
}

func several(ctx context.Context) {
	p := retry.Policy{Budget: &budget.Token{}}
	_ = retry.Run(ctx, p, op)
	_ = retry.Run(ctx, p, op)
}

func handedOn(ctx context.Context, use func(retry.Budget)) error {
	budget := &budget.Token{}
	use(budget)
	return retry.Run(ctx, retry.Policy{Budget: budget}, op)
}

func made() retry.Policy { return retry.Policy{Budget: &budget.Token{}} }

var rightPerHost = retryhttp.Transport{
	Budget: func(string) retry.Budget { return shared },
}

var hosts = retry.PerKey[budget.Token]{
	New: func(string) *budget.Token { return &budget.Token{Capacity: 10} },
}

var rightPerKey = retryhttp.Transport{
	Budget: func(host string) retry.Budget { return hosts.For(host) },
}
