// Package later sets Max, New and PaceByHeaders after it has made what has them.
package later

import (
	"context"
	"flag"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

var (
	places    limit.Limit
	hosts     retry.PerKey[limit.Limit]
	model     pace.Pace
	transport = &retryhttp.Transport{Policy: retry.Policy{Guards: []retry.Guard{&model}}}
)

func init() {
	flag.IntVar(&places.Max, "places", 10, "")
	hosts.New = func(string) *limit.Limit { return &limit.Limit{Max: 1} }
	transport.PaceByHeaders = true
}

func run(ctx context.Context, op func(context.Context) error) error {
	return retry.Run(ctx, retry.Policy{Guards: []retry.Guard{&model}}, op)
}
