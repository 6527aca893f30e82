package harm_test

import (
	"context"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/harm"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// subjects are all that may delay, refuse or withhold in the root module. A new one is a line.
var subjects = []harm.Subject{
	harm.Guarded("pace.Pace{}", func(*harm.Process) retry.Guard { return new(pace.Pace) }),
	harm.Guarded("pace.Pace{Quota}", func(p *harm.Process) retry.Guard { return paced(p, 1) }),
	harm.Guarded("pace.Pace{2 × Quota}", func(p *harm.Process) retry.Guard { return paced(p, 2) }),
	harm.Guarded("pace.Pace, shared", func(p *harm.Process) retry.Guard {
		q := paced(p, float64(p.World.Processes()))
		go q.Share(p.Until, p.Store)
		return q
	}),
	{Name: "pace.Pace, by headers", With: told, Against: "policy", Without: harm.Plain},
	harm.Guarded("limit.Limit{}", func(*harm.Process) retry.Guard { return new(limit.Limit) }),
	harm.Guarded("limit.Limit{Start}", func(p *harm.Process) retry.Guard { return &limit.Limit{Start: p.Peak} }),
	harm.Guarded("breaker.Breaker{}", func(*harm.Process) retry.Guard { return new(breaker.Breaker) }),
	{Name: "hedge.Hedge{}", With: hedged, Against: "policy", Without: harm.Plain},
	{Name: "retry.EarnedBudget{}", With: earned, Against: "one attempt", Without: harm.Once},
	{Name: "retryhttp.Transport", With: transport, Against: "Transport with a budget", Without: func(p *harm.Process) harm.Client {
		p.Policy.Budget = new(retry.EarnedBudget)
		return harm.HTTP(&retryhttp.Transport{Policy: p.Policy}, http.MethodGet)
	}},
}

// paced returns a pace with so many times the quota of the process.
func paced(p *harm.Process, times float64) *pace.Pace {
	return &pace.Pace{Quota: p.Quota * times, Burst: p.Burst * times}
}

// told has a pace that each answer tells the quota.
func told(p *harm.Process) harm.Client {
	model := new(pace.Pace)
	p.Policy.Guards = []retry.Guard{model}
	return func(ctx context.Context, c *harm.Call) error {
		return retry.Run(ctx, c.Of(p.Policy), func(ctx context.Context) error {
			started := model.Started()
			reply, err := c.Send(ctx, 0)
			if err == nil {
				model.Tell(reply.Quota, time.Minute, reply.Remaining, started)
			}
			return err
		})
	}
}

func hedged(p *harm.Process) harm.Client {
	h := new(hedge.Hedge)
	return func(ctx context.Context, c *harm.Call) error {
		_, err := hedge.Do(ctx, c.Of(p.Policy), h, func(ctx context.Context) (harm.Reply, error) { return c.Send(ctx, 0) })
		return err
	}
}

func earned(p *harm.Process) harm.Client {
	p.Policy.Budget = new(retry.EarnedBudget)
	return harm.Plain(p)
}

// transport has all of it.
func transport(p *harm.Process) harm.Client {
	h := new(hedge.Hedge)
	p.Policy.Budget = new(retry.EarnedBudget)
	p.Policy.Guards = []retry.Guard{paced(p, 1), &limit.Limit{Start: p.Peak}}
	return harm.HTTP(&retryhttp.Transport{
		Policy: p.Policy, PaceByHeaders: true,
		Hedge: func(string) *hedge.Hedge { return h },
	}, http.MethodGet)
}
