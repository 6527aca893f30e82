package idleguard

import (
	"context"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

var (
	zero     limit.Limit           // want `this Limit limits nothing: set Max`
	pointer  = &limit.Limit{}      // want `this Limit limits nothing`
	made     = new(limit.Limit)    // want `this Limit limits nothing`
	noMax    = limit.Limit{Max: 0} // want `this Limit limits nothing`
	none     *limit.Limit
	right    = limit.Limit{Max: 5}
	found    limit.Adaptive
	hosts    retry.PerKey[limit.Limit]      // want `these Limits limit nothing: set New`
	shards   = &retry.PerKey[limit.Limit]{} // want `these Limits limit nothing`
	targets  = retry.PerKey[limit.Limit]{New: func(string) *limit.Limit { return &limit.Limit{Max: 3} }}
	adaptive retry.PerKey[limit.Adaptive]
	paces    retry.PerKey[pace.Pace]
)

func of(n int) *limit.Limit { return &limit.Limit{Max: n} }

type service struct{ places limit.Limit } // somebody sets it

var (
	open     pace.Pace
	stated   = pace.Pace{Quota: 5}
	burst    = &pace.Pace{Burst: 5}
	Exported pace.Pace // others may tell it
)

func runs(ctx context.Context, given *pace.Pace, op func(context.Context) error) {
	var local pace.Pace                                                         // want `this pace.Pace is new`
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{&open}}, op)          // want `this Pace limits nothing: set Quota`
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{&stated, burst}}, op) // want `this Pace limits nothing`
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{new(pace.Pace)}}, op) // want `this Pace limits nothing` `this pace.Pace is new`
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{&pace.Pace{}}}, op)   // want `this Pace limits nothing` `this pace.Pace is new`
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{&local}}, op)         // want `this Pace limits nothing`
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{&Exported, given}}, op)
	_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{paces.For("x")}}, op)
}

var client = &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{
	Guards: []retry.Guard{&open}, // want `this Pace limits nothing`
}}}

var handedOn = retry.Policy{Guards: []retry.Guard{&open}} // a Transport of others may set PaceByHeaders
