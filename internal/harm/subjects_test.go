package harm_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/harm"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// subjects are all that may delay, refuse or withhold in the root module. A new one is a line. If it owes rows,
// RETRY_LONG=1 go test -count=1 -run TestHarm ./internal/harm -update writes them down.
var subjects = []harm.Subject{
	harm.Guarded("pace.Pace{}", func(*harm.Process) retry.Guard { return new(pace.Pace) }),
	harm.Guarded("pace.Pace{Quota}", func(p *harm.Process) retry.Guard { return paced(p, 1) }),
	harm.Guarded("pace.Pace{2 × Quota}", func(p *harm.Process) retry.Guard { return paced(p, 2) }),
	harm.Guarded("pace.Pace, shared", func(p *harm.Process) retry.Guard {
		q := paced(p, float64(p.World.Processes()))
		go q.Share(p.Until, p.Store)
		return q
	}),
	told("pace.Pace, by headers of a bucket", func(r harm.Reply) float64 { return r.InBucket }),
	told("pace.Pace, by headers of a window", func(r harm.Reply) float64 { return r.InMinute }),
	harm.Guarded("limit.Limit{Max}", func(p *harm.Process) retry.Guard { return &limit.Limit{Max: p.Peak} }),
	harm.Guarded("limit.Adaptive{}", func(*harm.Process) retry.Guard { return new(limit.Adaptive) }),
	harm.Guarded("breaker.Breaker{}", func(*harm.Process) retry.Guard { return new(breaker.Breaker) }),
	{Name: "hedge.Hedge{}", With: hedged, Against: "policy", Without: harm.Plain},
	elsewhere("failover.Do, one target", 1),
	elsewhere("failover.Do, two targets", 2),
	elsewhere("failover.Do, three targets", 3),
	withheld("retry.EarnedBudget{}", func() retry.Budget { return new(retry.EarnedBudget) }),
	withheld("budget.Token{}", func() retry.Budget { return new(budget.Token) }),
	withheld("budget.Ratio{}", func() retry.Budget { return new(budget.Ratio) }),
	transport("retryhttp.Transport", func(p *harm.Process, t *retryhttp.Transport) {
		h := new(hedge.Hedge)
		t.Policy.Guards = []retry.Guard{paced(p, 1), &limit.Limit{Max: 2 * p.Peak}} // a hedge has a place too
		t.Hedge = func(string) *hedge.Hedge { return h }
	}),
	transport("retryhttp.Transport{PaceByHeaders}", func(_ *harm.Process, t *retryhttp.Transport) {
		t.Policy.Guards = []retry.Guard{new(pace.Pace)}
		t.PaceByHeaders = true
	}),
}

// paced returns a pace with so many times the quota of the process.
func paced(p *harm.Process, times float64) *pace.Pace {
	return &pace.Pace{Quota: p.Quota * times, Burst: p.Burst * times}
}

// told has a pace that each answer tells the quota.
func told(name string, remaining func(harm.Reply) float64) harm.Subject {
	return harm.Subject{Name: name, Against: "policy", Without: harm.Plain, With: func(p *harm.Process) harm.Client {
		model := new(pace.Pace)
		p.Policy.Guards = []retry.Guard{model}
		return func(ctx context.Context, c *harm.Call) error {
			return retry.Run(ctx, c.Of(p.Policy), func(ctx context.Context) error {
				started := model.Started()
				reply, err := c.Send(ctx, 0)
				if err == nil {
					model.Tell(reply.Quota, time.Minute, remaining(reply), started)
				}
				return err
			})
		}
	}}
}

func hedged(p *harm.Process) harm.Client {
	h := new(hedge.Hedge)
	return func(ctx context.Context, c *harm.Call) error {
		_, err := hedge.Do(ctx, c.Of(p.Policy), h, func(ctx context.Context) (harm.Reply, error) { return c.Send(ctx, 0) })
		return err
	}
}

// elsewhere has so many targets, each of which is as the one of the policy.
func elsewhere(name string, n int) harm.Subject {
	return harm.Subject{Name: name, Against: "policy", Without: harm.Plain, With: func(p *harm.Process) harm.Client {
		s := new(failover.Set[int])
		for i := range n {
			s.Targets = append(s.Targets, &failover.Target[int]{Name: fmt.Sprint(i), Value: i})
		}
		return func(ctx context.Context, c *harm.Call) error {
			_, err := failover.Do(ctx, c.Of(p.Policy), s, func(ctx context.Context, t *failover.Target[int]) (harm.Reply, error) {
				return c.Send(ctx, t.Value)
			})
			return err
		}
	}}
}

// withheld has a budget.
func withheld(name string, b func() retry.Budget) harm.Subject {
	return harm.Subject{Name: name, Against: "one attempt", Without: harm.Once, With: func(p *harm.Process) harm.Client {
		p.Policy.Budget = b()
		return harm.Plain(p)
	}}
}

// transport has a Transport with a budget, and more.
func transport(name string, more func(*harm.Process, *retryhttp.Transport)) harm.Subject {
	client := func(p *harm.Process) *retryhttp.Transport {
		p.Policy.Budget = new(retry.EarnedBudget)
		return &retryhttp.Transport{Policy: p.Policy}
	}
	return harm.Subject{
		Name: name, With: func(p *harm.Process) harm.Client {
			t := client(p)
			more(p, t)
			return harm.HTTP(t, http.MethodGet)
		},
		Against: "Transport with a budget", Without: func(p *harm.Process) harm.Client { return harm.HTTP(client(p), http.MethodGet) },
	}
}
