package migrate_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryconf"
)

// zeros are settings of other libraries, and ours, each of which is set to a number. Each calls op until
// it gives up, with waits of a second unless they are what is set.
var zeros = map[string]func(ctx context.Context, n int, op func() error) error{
	"cenkalti `InitialInterval`": func(ctx context.Context, n int, op func() error) error {
		b := backoff.NewExponentialBackOff()
		b.InitialInterval, b.RandomizationFactor = time.Duration(n), 0
		return cenkalti(ctx, op, backoff.WithBackOff(b))
	},
	"cenkalti `MaxInterval`": func(ctx context.Context, n int, op func() error) error {
		b := backoff.NewExponentialBackOff()
		b.InitialInterval, b.RandomizationFactor, b.MaxInterval = time.Second, 0, time.Duration(n)
		return cenkalti(ctx, op, backoff.WithBackOff(b))
	},
	"cenkalti `Multiplier`": func(ctx context.Context, n int, op func() error) error {
		b := backoff.NewExponentialBackOff()
		b.InitialInterval, b.RandomizationFactor, b.Multiplier = time.Second, 0, float64(n)
		return cenkalti(ctx, op, backoff.WithBackOff(b))
	},
	"cenkalti `RandomizationFactor`": func(ctx context.Context, n int, op func() error) error {
		b := backoff.NewExponentialBackOff()
		b.InitialInterval, b.Multiplier, b.RandomizationFactor = time.Second, 1, float64(n)
		return cenkalti(ctx, op, backoff.WithBackOff(b))
	},
	"cenkalti `WithMaxElapsedTime`": func(ctx context.Context, n int, op func() error) error {
		return cenkalti(ctx, op, backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)), backoff.WithMaxElapsedTime(time.Duration(n)))
	},
	"cenkalti `WithMaxTries`": func(ctx context.Context, n int, op func() error) error {
		if n < 0 {
			return errUnsigned
		}
		return cenkalti(ctx, op, backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)), backoff.WithMaxTries(uint(n)))
	},
	"cenkalti `NewConstantBackOff`": func(ctx context.Context, n int, op func() error) error {
		return cenkalti(ctx, op, backoff.WithBackOff(backoff.NewConstantBackOff(time.Duration(n))))
	},
	"avast `Attempts`": func(ctx context.Context, n int, op func() error) error {
		if n < 0 {
			return errUnsigned
		}
		return avast.New(avast.Context(ctx), avast.Attempts(uint(n)), avast.Delay(time.Second), avast.DelayType(avast.FixedDelay)).Do(op)
	},
	"avast `Delay`": func(ctx context.Context, n int, op func() error) error {
		return avast.New(avast.Context(ctx), avast.Attempts(4), avast.Delay(time.Duration(n)), avast.DelayType(avast.BackOffDelay)).Do(op)
	},
	"avast `MaxDelay`": func(ctx context.Context, n int, op func() error) error {
		return avast.New(avast.Context(ctx), avast.Attempts(4), avast.Delay(time.Second), avast.MaxDelay(time.Duration(n)), avast.DelayType(avast.FixedDelay)).Do(op)
	},
	"avast `MaxJitter`": func(ctx context.Context, n int, op func() error) error {
		return avast.New(avast.Context(ctx), avast.Attempts(4), avast.Delay(time.Second), avast.MaxJitter(time.Duration(n)), avast.DelayType(avast.CombineDelay(avast.FixedDelay, avast.RandomDelay))).Do(op)
	},
	"sethvargo `NewConstant`": func(ctx context.Context, n int, op func() error) error {
		return seth(ctx, op, sethvargo.WithMaxRetries(3, sethvargo.NewConstant(time.Duration(n))))
	},
	"sethvargo `NewExponential`": func(ctx context.Context, n int, op func() error) error {
		return seth(ctx, op, sethvargo.WithMaxRetries(3, sethvargo.NewExponential(time.Duration(n))))
	},
	"sethvargo `WithMaxRetries`": func(ctx context.Context, n int, op func() error) error {
		if n < 0 {
			return errUnsigned
		}
		return seth(ctx, op, sethvargo.WithMaxRetries(uint64(n), sethvargo.NewConstant(time.Second)))
	},
	"sethvargo `WithCappedDuration`": func(ctx context.Context, n int, op func() error) error {
		return seth(ctx, op, sethvargo.WithMaxRetries(3, sethvargo.WithCappedDuration(time.Duration(n), sethvargo.NewConstant(time.Second))))
	},
	"sethvargo `WithMaxDuration`": func(ctx context.Context, n int, op func() error) error {
		return seth(ctx, op, sethvargo.WithMaxDuration(time.Duration(n), sethvargo.NewConstant(time.Second)))
	},
	"failsafe `WithMaxAttempts`": func(ctx context.Context, n int, op func() error) error {
		return failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(n).WithDelay(time.Second).Build()).WithContext(ctx).Run(op)
	},
	"failsafe `WithMaxRetries`": func(ctx context.Context, n int, op func() error) error {
		return failsafe.With(retrypolicy.NewBuilder[any]().WithMaxRetries(n).WithDelay(time.Second).Build()).WithContext(ctx).Run(op)
	},
	"failsafe `WithDelay`": func(ctx context.Context, n int, op func() error) error {
		return failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(4).WithDelay(time.Duration(n)).Build()).WithContext(ctx).Run(op)
	},
	"failsafe `WithMaxDuration`": func(ctx context.Context, n int, op func() error) error {
		return failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(-1).WithMaxDuration(time.Duration(n)).WithDelay(time.Second).Build()).WithContext(ctx).Run(op)
	},
	"failsafe `WithJitterFactor`": func(ctx context.Context, n int, op func() error) error {
		return failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(4).WithDelay(time.Second).WithJitterFactor(float64(n)).Build()).WithContext(ctx).Run(op)
	},
	"failsafe `WithBackoff`": func(ctx context.Context, n int, op func() error) error {
		return failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(4).WithBackoff(time.Duration(n), time.Minute).Build()).WithContext(ctx).Run(op)
	},
	"`MaxAttempts`": func(ctx context.Context, n int, op func() error) error {
		return ours(ctx, op, retry.Policy{MaxAttempts: n, Backoff: retry.Constant(time.Second)})
	},
	"`MaxElapsed`": func(ctx context.Context, n int, op func() error) error {
		return ours(ctx, op, retry.Policy{MaxAttempts: retry.Unlimited, MaxElapsed: time.Duration(n), Backoff: retry.Constant(time.Second)})
	},
	"`AttemptTimeout`": func(ctx context.Context, n int, op func() error) error {
		return ours(ctx, func() error { time.Sleep(time.Hour); return op() }, retry.Policy{MaxAttempts: retry.Unlimited, AttemptTimeout: time.Duration(n), Backoff: retry.Constant(time.Second)})
	},
	"`Constant`": func(ctx context.Context, n int, op func() error) error {
		return ours(ctx, op, retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(n)})
	},
	"`Exponential.Base`": func(ctx context.Context, n int, op func() error) error {
		return ours(ctx, op, retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Duration(n), Jitter: retry.NoJitter}})
	},
	"`Exponential.Max`": func(ctx context.Context, n int, op func() error) error {
		return ours(ctx, op, retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: 15 * time.Second, Max: time.Duration(n), Jitter: retry.NoJitter}})
	},
	"`Exponential.Factor`": func(ctx context.Context, n int, op func() error) error {
		return ours(ctx, op, retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second, Factor: float64(n), Jitter: retry.NoJitter}})
	},
	"`MaxRetryAfter`": func(ctx context.Context, n int, op func() error) error {
		return ours(ctx, func() error { return retry.After(op(), 5*time.Minute) }, retry.Policy{MaxAttempts: 4, MaxRetryAfter: time.Duration(n), Backoff: retry.Constant(0), Rand: func() float64 { return 0 }})
	},
	"go-retryablehttp `RetryMax`": func(ctx context.Context, n int, op func() error) error {
		return hashi(ctx, op, func(c *retryablehttp.Client) { c.RetryMax = n })
	},
	"go-retryablehttp `RetryWaitMin`": func(ctx context.Context, n int, op func() error) error {
		return hashi(ctx, op, func(c *retryablehttp.Client) { c.RetryWaitMin = time.Duration(n) })
	},
	"go-retryablehttp `RetryWaitMax`": func(ctx context.Context, n int, op func() error) error {
		return hashi(ctx, op, func(c *retryablehttp.Client) { c.RetryWaitMax = time.Duration(n) })
	},
}

var errUnsigned = fmt.Errorf("it is unsigned")

func cenkalti(ctx context.Context, op func() error, opts ...backoff.RetryOption) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, op() }, opts...)
	return err
}

func seth(ctx context.Context, op func() error, b sethvargo.Backoff) error {
	return sethvargo.Do(ctx, b, func(context.Context) error { return sethvargo.RetryableError(op()) })
}

func ours(ctx context.Context, op func() error, p retry.Policy) error {
	return retry.Run(ctx, p, func(context.Context) error { return op() })
}

type roundTripper func() error

func (f roundTripper) RoundTrip(*http.Request) (*http.Response, error) { return nil, f() }

func hashi(ctx context.Context, op func() error, edit func(*retryablehttp.Client)) error {
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: roundTripper(op)}
	c.RetryWaitMin, c.RetryWaitMax, c.RetryMax = time.Second, time.Second, 3
	edit(c)
	req, err := retryablehttp.NewRequestWithContext(ctx, "GET", "http://example.com", nil)
	if err != nil {
		return err
	}
	_, err = c.Do(req)
	return err
}

// meaning says what a call with a setting does.
func meaning(t *testing.T, n int, call func(context.Context, int, func() error) error) (does string) {
	synctest.Test(t, func(t *testing.T) {
		const most = 20
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &service{errs: down(most)}
		defer func() {
			if r := recover(); r != nil {
				does = "panics"
			}
		}()
		err := call(ctx, n, func() error {
			if len(s.calls) == most-1 {
				cancel()
			}
			return s.ping()
		})
		if err == errUnsigned {
			does = "–"
			return
		}
		var waits []string
		for i := 1; i < min(len(s.calls), 4); i++ {
			wait := s.calls[i].Sub(s.calls[i-1]).String()
			if strings.Contains(wait, ".") && !strings.HasPrefix(wait, "0.") {
				wait = "random"
			}
			waits = append(waits, wait)
		}
		does = fmt.Sprintf("%d calls %s", len(s.calls), strings.Join(waits, " "))
	})
	return does
}

// meanings are what the page calls what a call does.
var meanings = map[string][]string{
	"no limit":                 {"20 calls 1s 1s 1s"},
	"one attempt":              {"1 calls "},
	"two attempts":             {"2 calls 1s"},
	"three attempts":           {"3 calls 1s 1s"},
	"no wait":                  {"20 calls 0s 0s 0s", "4 calls 0s 0s 0s"},
	"waits stay as the first":  {"20 calls 1s 1s 1s"},
	"no maximum":               {"4 calls 1s 1s 1s"},
	"no jitter":                {"4 calls 1s 1s 1s", "20 calls 1s 1s 1s"},
	"the longest wait at once": {"16 calls 1s 1m0s 1m0s"},
	"none":                     {"20 calls 1h0m1s 1h0m1s 1h0m1s"},
	"100 ms":                   {"4 calls 100ms 200ms 400ms"},
	"20 s":                     {"4 calls 15s 20s 20s"},
	"2":                        {"4 calls 1s 2s 4s"},
	"5 minutes":                {"4 calls 5m0s 5m0s 5m0s"},
	"panics":                   {"panics"},
	"–":                        {"–"},
}

// The tables of docs/migrating.md say what 0 and −1 mean, there and here.
func TestZeros(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Zeros")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]bool{}
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) < 3 || strings.HasPrefix(cells[0], "---") || cells[1] == "0" {
			continue
		}
		for _, name := range strings.Split(cells[0], ", ") {
			call, ok := zeros[name]
			if !ok {
				t.Errorf("no call sets %s", name)
				continue
			}
			rows[name] = true
			for i, n := range []int{0, -1} {
				says, does := cells[i+1], meaning(t, n, call)
				if says == "as 1" { // jitter
					if !strings.Contains(does, "random") {
						t.Errorf("%s: %d is %s, the page says %s", name, n, does, says)
					}
				} else if !slices.Contains(meanings[says], does) {
					t.Errorf("%s: %d is %s, the page says %s", name, n, does, says)
				}
			}
		}
	}
	for name := range zeros {
		if !rows[name] {
			t.Errorf("the page says nothing of %s", name)
		}
	}
}

// A line of retryconf means the same, but what looks like "none" and is not is an error.
func TestZerosInALine(t *testing.T) {
	for line, ok := range map[string]bool{
		"attempts=0": false, "attempts=-1": false, "attempts=unlimited": true, "max_elapsed=-1s": false, "attempt_timeout=-1s": false, "max_retry_after=-1s": false,
		"backoff=constant(-1s)": false, "backoff=exponential(-1s,10s)": false, "backoff=exponential(1s,-1s)": false,
		"max_elapsed=0s": true, "backoff=constant(0)": true, "backoff=exponential(0,10s)": true,
	} {
		var p retryconf.Policy
		if err := p.UnmarshalText([]byte(line)); (err == nil) != ok {
			t.Errorf("%q: %v", line, err)
		}
		if e, isExp := p.Backoff.(retry.Exponential); isExp && e.Delay(retry.Step{Retry: 1, Rand: .999999999999}).Round(time.Millisecond) != 100*time.Millisecond {
			t.Errorf("%q: %+v, want the default", line, e)
		}
		if p.Backoff == retry.Backoff(retry.Constant(0)) && p.Backoff.Delay(retry.Step{Retry: 1}) != 0 {
			t.Errorf("%q: %v, want no wait", line, p.Backoff)
		}
	}
}
