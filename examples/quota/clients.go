package main

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/go-redis/redis_rate/v10"
	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryredis"
	"github.com/redis/go-redis/v9"
)

// A connector returns how a process makes a call.
type connector func(ctx context.Context, j job, model *pace.Pace, store redis.UniversalClient) (call func() error)

// clients are what -compare compares. All make up to attempts requests for a call.
var clients = []struct {
	name    string
	connect connector
}{
	{"shared pace", shared(0)},
	{"shared pace, Burst 20", shared(perSecond)},
	{"redis_rate", asking(false)},
	{"redis_rate, one asks", asking(true)},
	{"pace of its share", apart},
	{"AWS adaptive", adaptive},
	{"no pace", func(_ context.Context, j job, _ *pace.Pace, _ redis.UniversalClient) func() error {
		return posting(j.URL, nil, nil)
	}},
}

const attempts = 10

// key is that of the quota.
const key = "provider/model/key"

func connect(name string) connector {
	for _, c := range clients {
		if c.name == name {
			return c.connect
		}
	}
	panic("no client " + name)
}

// shared shares the quota by a Store.
func shared(burst float64) connector {
	return func(ctx context.Context, j job, model *pace.Pace, store redis.UniversalClient) func() error {
		// The whole of it: the quota, and one key for all processes whose calls count against it.
		model.Quota, model.Burst = perSecond, burst
		go model.Share(ctx, &retryredis.Store{Client: store, Key: key})
		return posting(j.URL, nil, model)
	}
}

// apart gives each process as large a part of the quota as any other, whichever has the calls.
func apart(_ context.Context, j job, model *pace.Pace, _ redis.UniversalClient) func() error {
	model.Quota = j.Share
	return posting(j.URL, nil, model)
}

// posting makes POSTs by the policy that all clients but that of AWS have.
func posting(url string, wrap func(http.RoundTripper) http.RoundTripper, model *pace.Pace) func() error {
	var base http.RoundTripper = &http.Transport{MaxIdleConnsPerHost: callers}
	if wrap != nil {
		base = wrap(base)
	}
	policy := retry.Policy{Name: "complete", MaxAttempts: attempts, Budget: &retry.EarnedBudget{}}
	if model != nil {
		policy.Guards = []retry.Guard{model}
	}
	client := &http.Client{Timeout: patience, Transport: &retryhttp.Transport{Base: base, Policy: policy}}
	return func() error { return post(client, url) }
}

// asking asks redis_rate, which is GCRA on Redis too, before each request, and sleeps for as long as
// it says. If one is set, only one call of a process does so at a time.
func asking(one bool) connector {
	return func(_ context.Context, j job, _ *pace.Pace, store redis.UniversalClient) func() error {
		places := make(chan struct{}, callers*perSecond)
		if one {
			places = make(chan struct{}, 1)
		}
		limiter := redis_rate.NewLimiter(store)
		return posting(j.URL, func(base http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if err := wait(req.Context(), limiter, places); err != nil {
					req.Body.Close()
					return nil, err
				}
				return base.RoundTrip(req)
			})
		}, nil)
	}
}

func wait(ctx context.Context, limiter *redis_rate.Limiter, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		got, err := limiter.Allow(ctx, key, redis_rate.PerSecond(perSecond)) // with a burst of as many
		if err != nil || got.Allowed > 0 {
			return err
		}
		select {
		case <-time.After(got.RetryAfter):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// adaptive is the SDK of AWS in the mode that learns how fast to send, which is what
// config.WithRetryMode(aws.RetryModeAdaptive) sets.
func adaptive(_ context.Context, j job, _ *pace.Pace, _ redis.UniversalClient) func() error {
	client := sqs.New(sqs.Options{
		Region:       "local",
		BaseEndpoint: &j.URL,
		Credentials:  aws.AnonymousCredentials{},
		HTTPClient:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}},
		Retryer: awsretry.NewAdaptiveMode(func(o *awsretry.AdaptiveModeOptions) {
			o.StandardOptions = append(o.StandardOptions, func(o *awsretry.StandardOptions) { o.MaxAttempts = attempts })
		}),
	})
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("hello")})
		return err
	}
}
