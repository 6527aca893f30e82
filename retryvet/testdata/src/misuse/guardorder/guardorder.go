package guardorder

import (
	"context"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

type client struct {
	pace  *pace.Pace
	limit *limit.Limit
}

type other struct{}

func (other) Enter(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, nil }
func (other) Leave(retry.Pass, retry.Exit)                           {}

var (
	model  = pace.Pace{Quota: 5}
	places = &limit.Limit{Max: 5}
	wrong  = retry.Policy{Guards: []retry.Guard{places, &model}} // want `each attempt holds a place of this Limit while it waits for its turn at the Pace: put the Pace first`
	right  = retry.Policy{Guards: []retry.Guard{&model, places}}
)

func assigned(c client) (p retry.Policy) {
	p.Guards = []retry.Guard{other{}, c.limit, nil, other{}, c.pace} // want `holds a place of this Limit`
	p.Guards = []retry.Guard{c.pace, other{}, c.limit}
	p.Guards = []retry.Guard{&limit.Limit{Max: 5}, new(pace.Pace)} // want `holds a place of this Limit`
	p.Guards = []retry.Guard{&limit.Adaptive{}, new(pace.Pace)}    // want `holds a place of this Adaptive`
	p.Guards = []retry.Guard{c.pace, c.limit, &model}              // want `holds a place of this Limit`
	p.Guards = []retry.Guard{c.limit, other{}}
	return p
}

func made(limitOf func(string) *limit.Limit, paceOf func(string) *pace.Pace) func(*http.Request) []retry.Guard {
	return func(r *http.Request) []retry.Guard {
		if r.Method == "GET" {
			return []retry.Guard{paceOf(r.Host), limitOf(r.Host)}
		}
		return []retry.Guard{limitOf(r.Host), paceOf(r.Host)} // want `holds a place of this Limit`
	}
}

func behindAnInterface() retry.Policy {
	var first retry.Guard = &limit.Limit{Max: 5}
	var second retry.Guard = new(pace.Pace)
	guards := []retry.Guard{first, second} // want `holds a place of this Limit`
	return retry.Policy{Guards: guards}
}

type guards []retry.Guard

var named = guards{places, &model} // want `holds a place of this Limit`

var (
	hosts   = retry.PerKey[limit.Limit]{New: func(string) *limit.Limit { return &limit.Limit{Max: 5} }}
	client1 = &retryhttp.Transport{
		Guards: func(r *http.Request) []retry.Guard {
			return []retry.Guard{hosts.For(r.Host)} // want `Transport.Guards come before Policy.Guards, so each attempt holds a place of this Limit`
		},
		Policy: retry.Policy{Guards: []retry.Guard{&model}},
	}
	client2 = &retryhttp.Transport{
		Guards: func(r *http.Request) []retry.Guard { return []retry.Guard{&model} },
		Policy: retry.Policy{Guards: []retry.Guard{places}},
	}
	client3 = &retryhttp.Transport{
		Guards: func(r *http.Request) []retry.Guard { return []retry.Guard{hosts.For(r.Host)} },
		Policy: retry.Policy{Guards: []retry.Guard{places}},
	}
)
