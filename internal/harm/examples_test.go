package harm_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/harm"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

//go:generate go test ./pages -run TestPages -update

// The examples of the pages are subjects as they stand there. What they are measured against has no guards and no
// hedge, or if they have none and a budget, makes one attempt.
func init() {
	for _, page := range onPages {
		subjects = append(subjects, harm.Subject{
			Name: page.name, With: func(p *harm.Process) harm.Client { return client(p, page.value()) },
			Against: page.name, Without: func(p *harm.Process) harm.Client { return client(p, without(page.value())) },
		})
	}
}

// client calls by a policy or a Transport.
func client(p *harm.Process, value any) harm.Client {
	switch v := value.(type) {
	case *retry.Policy:
		fit(p, v)
		p.Policy = *v
		return harm.Plain(p)
	case *retryhttp.Transport:
		fit(p, &v.Policy)
		if guards := v.Guards; guards != nil {
			var fitted sync.Map
			v.Guards = func(req *http.Request) []retry.Guard {
				gs := guards(req)
				for _, g := range gs {
					if _, old := fitted.LoadOrStore(g, true); !old {
						tell(p, g)
					}
				}
				return gs
			}
		}
		return harm.HTTP(v, http.MethodPost)
	}
	panic(fmt.Sprintf("no client by a %T", value))
}

// fit puts the numbers into a policy that its reader has to know: how long an answer of the server takes, what its
// quota is, how much a process has in flight.
func fit(p *harm.Process, policy *retry.Policy) {
	policy.AttemptTimeout = p.Policy.AttemptTimeout
	for _, g := range policy.Guards {
		tell(p, g)
	}
}

// tell puts the numbers of the world in place of those that an example states. What it leaves out stays out.
func tell(p *harm.Process, g retry.Guard) {
	switch g := g.(type) {
	case *pace.Pace:
		if g.Quota != 0 {
			g.Quota, g.Per = p.Quota, time.Second
		}
		if g.Burst != 0 {
			g.Burst = p.Burst
		}
	case *limit.Limit:
		if g.Max != 0 {
			g.Max = 2 * p.Peak // as overload.md says
		}
	case *limit.Adaptive:
		if g.Max != 0 {
			g.Max = 2 * p.Peak // as overload.md says
		}
	}
}

// without takes guards and hedges out, or in their absence the retries.
func without(value any) any {
	switch v := value.(type) {
	case *retry.Policy:
		withhold(v, len(v.Guards) > 0)
	case *retryhttp.Transport:
		withhold(&v.Policy, len(v.Policy.Guards) > 0 || v.Guards != nil || v.Hedge != nil || v.PaceByHeaders)
		v.Guards, v.Hedge, v.PaceByHeaders = nil, nil, false
	}
	return value
}

func withhold(p *retry.Policy, guarded bool) {
	p.Guards = nil
	if !guarded {
		p.MaxAttempts = 1
	}
}

// The numbers of a page are those of its reader. What is measured against it has none of what may do harm.
func TestExamplesOfPages(t *testing.T) {
	p := &harm.Process{Policy: retry.Policy{AttemptTimeout: 3 * time.Second}, Quota: 7, Burst: 70, Peak: 12}
	stated, open, places, guess := &pace.Pace{Quota: 500, Per: time.Minute}, new(pace.Pace), &limit.Limit{Max: 40}, &limit.Adaptive{Max: 40}
	policy := &retry.Policy{AttemptTimeout: time.Second, Budget: new(retry.EarnedBudget), Guards: []retry.Guard{stated, open, places, guess}}
	fit(p, policy)
	if stated.Quota != 7 || stated.Per != time.Second || stated.Burst != 0 || open.Quota != 0 || places.Max != 24 || guess.Max != 24 || policy.AttemptTimeout != 3*time.Second {
		t.Errorf("fit makes %+v and %v, %v, %d and %d places of a policy", policy, stated.Quota, open.Quota, places.Max, guess.Max)
	}
	if without(policy); policy.Guards != nil || policy.Budget == nil || policy.MaxAttempts != 0 {
		t.Errorf("without guards it is %+v", policy)
	}
	if without(policy); policy.MaxAttempts != 1 {
		t.Errorf("without a budget it makes %d attempts, want one", policy.MaxAttempts)
	}
	transport := &retryhttp.Transport{Hedge: func(string) *hedge.Hedge { return nil }}
	if without(transport); transport.Hedge != nil || transport.Policy.MaxAttempts != 0 {
		t.Errorf("without a hedge a Transport is %+v", transport)
	}
}
