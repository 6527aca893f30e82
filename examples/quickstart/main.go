// Quickstart makes fourteen calls to an HTTP server that fails on purpose, and shows
// what package retry does in each: every attempt, the class of its error, every wait
// and the reason for it, and why the run ended. From the root of the repository:
//
//	go run ./examples/quickstart
//
// It takes three to four seconds, since the server, the sockets and the waits are
// real. It exits with code 1 if a call did not end for the expected reason.
//
// main.go has the policy and the calls, client.go shows how to make them with
// package retryhttp and how to write an operation for retry.Do, timeline.go how to
// watch it with retry.Hooks, and server.go fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// What the server's answers are decoded into.
type (
	User    struct{ Name string }
	Quote   struct{ Cents int }
	Page    struct{ Title string }
	Job     struct{ Status string }
	Order   struct{ Item string }
	Receipt struct{ Number int }
)

// scenario is one call, and what it is to run into.
type scenario struct {
	name  string // of the policy, and the path on the server
	about string
	fails []step       // the server's script
	ends  retry.Reason // why the run is to end
	call  func(context.Context, target) (any, error)
}

// target is what a scenario is given for its call.
type target struct {
	client *http.Client
	url    string
	policy retry.Policy // the shared one, a copy: a scenario changes what it needs
}

func scenarios() []scenario {
	budget := &retry.EarnedBudget{} // four retries, but none after a timeout, for all who share it, until calls have succeeded
	return []scenario{{
		name:  "get-user",
		about: "A bad moment: an overload, half a body, a reset connection. Then it works.",
		fails: []step{status(503), half, reset, ok(User{"Ada Lovelace"})},
		call: func(ctx context.Context, t target) (any, error) {
			return retry.Do(ctx, t.policy, func(ctx context.Context) (User, error) {
				return send[User](ctx, t.client, http.MethodGet, t.url, nil)
			})
		},
	}, {
		name:  "get-quote",
		about: "The server says when to come back. The wait is longer than that, never shorter.",
		fails: []step{busy(503, 1), ok(Quote{4250})},
		call:  getWith[Quote](nil),
	}, {
		name:  "get-report",
		about: "The first answer never comes. Policy.AttemptTimeout gives up on it, not on the call.",
		fails: []step{hang, ok(Page{"Annual report"})},
		call:  getWith[Page](nil),
	}, {
		name:  "poll-job",
		about: "No error, but not the answer yet: retry.Until polls, here with a Constant backoff.",
		fails: []step{ok(Job{"pending"}), ok(Job{"pending"}), ok(Job{"done"})},
		call: func(ctx context.Context, t target) (any, error) {
			t.policy.Backoff = retry.Constant(100 * time.Millisecond)
			return retry.Do(ctx, t.policy, retry.Until(func(ctx context.Context) (Job, error) {
				return send[Job](ctx, t.client, http.MethodGet, t.url, nil)
			}, func(j Job) bool { return j.Status == "done" }))
		},
	}, {
		name:  "edit-page",
		about: "409 Conflict would be permanent. Policy.Classify knows that this conflict goes away.",
		fails: []step{status(409), status(409), ok(Page{"Edited"})},
		call: getWith[Page](func(p *retry.Policy) {
			p.Classify = func(err error) retry.Class {
				if e, ok := errors.AsType[*retryhttp.StatusError](err); ok && e.Code == http.StatusConflict {
					return retry.Transient
				}
				return retry.Unknown // the default classifier knows the rest
			}
		}),
	}, {
		name:  "pay-order",
		about: "A POST. One replica is down, and a refused connection proves that it never ran.",
		fails: []step{ok(Receipt{1001})},
		call: func(ctx context.Context, t target) (any, error) {
			down, err := downHost()
			if err != nil {
				return nil, err
			}
			client := *t.client
			client.Transport = &retryhttp.Transport{
				Base: t.client.Transport,
				Prepare: func(req *http.Request) error { // gets each attempt's own copy
					if retry.AttemptNumber(req.Context()) == 1 {
						req.URL.Host = down
					}
					return nil
				},
			}
			t.client = &client
			return call[Receipt](ctx, t, http.MethodPost, Order{"one difference engine"})
		},
	}, {
		name:  "pay-again",
		about: "A POST, and the connection broke: did it run? Nobody knows. retryhttp does not retry.",
		fails: []step{reset},
		ends:  retry.ReasonNotIdempotent,
		call: func(ctx context.Context, t target) (any, error) {
			return call[Receipt](ctx, t, http.MethodPost, Order{"another one"})
		},
	}, {
		name:  "get-page",
		about: "What is not there will not be there in 80 ms either.",
		fails: []step{status(404)},
		ends:  retry.ReasonPermanent,
		call:  getWith[Page](nil),
	}, {
		name:  "get-feed",
		about: "The server wants two minutes. The policy allows five seconds, and sooner is no help.",
		fails: []step{busy(429, 120)},
		ends:  retry.ReasonRetryAfter,
		call:  getWith[Page](nil),
	}, {
		name:  "get-stock",
		about: "A server that never recovers gets the attempts it is allowed, here four.",
		fails: []step{status(500), status(502), status(503), status(504)},
		ends:  retry.ReasonMaxAttempts,
		call: getWith[Quote](func(p *retry.Policy) {
			p.MaxAttempts = 4
			p.Budget = budget
		}),
	}, {
		name:  "get-price",
		about: "After a 504 a retry costs ten tokens. A new budget has nine, and get-stock used some.",
		fails: []step{status(504)},
		ends:  retry.ReasonBudget,
		call:  getWith[Quote](func(p *retry.Policy) { p.Budget = budget }),
	}, {
		name:  "get-log",
		about: "As many attempts as it likes (retry.Unlimited), but only for 400 ms.",
		fails: []step{status(500)},
		ends:  retry.ReasonMaxElapsed,
		call: getWith[Page](func(p *retry.Policy) {
			p.MaxAttempts = retry.Unlimited
			p.MaxElapsed = 400 * time.Millisecond
		}),
	}, {
		name:  "get-map",
		about: "The caller has 300 ms, the server wants 1 s: the error comes now, not in 300 ms.",
		fails: []step{busy(503, 1)},
		ends:  retry.ReasonDeadline,
		call: func(ctx context.Context, t target) (any, error) {
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			return getWith[Page](nil)(ctx, t)
		},
	}, {
		name:  "get-film",
		about: "The caller cancels after 200 ms, in the middle of a wait, which ends there.",
		fails: []step{busy(503, 1)},
		ends:  retry.ReasonCanceled,
		call: func(ctx context.Context, t target) (any, error) {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer time.AfterFunc(200*time.Millisecond, func() { cancel(errors.New("closed the tab")) }).Stop()
			return getWith[Page](nil)(ctx, t)
		},
	}}
}

// getWith is the call of the scenarios that differ only in their policy.
func getWith[T any](change func(*retry.Policy)) func(context.Context, target) (any, error) {
	return func(ctx context.Context, t target) (any, error) {
		if change != nil {
			change(&t.policy)
		}
		return call[T](ctx, t, http.MethodGet, nil)
	}
}

// run makes all calls and prints what happens to w. Its error names those that
// did not end as they should.
func run(w io.Writer) error { return play(w, scenarios()) }

func play(w io.Writer, scenarios []scenario) error {
	server, err := startFlaky(seeded(1))
	if err != nil {
		return err
	}
	defer server.close()
	client := newClient()
	t := timeline{w: w, style: styleOf(w)}
	policy := shared(t.hooks())
	fmt.Fprintf(w, "A server on %s fails on purpose. Each call has one policy\n"+
		"unless it says otherwise: up to 5 attempts of at most 500 ms each, and waits\n"+
		"that are random below 80, 160, 320, ... ms. Most calls are meant to fail.\n",
		server.url)

	var wrong []error
	for _, s := range scenarios {
		about := strings.Join(wrap(s.about, columns-12), "\n            ")
		fmt.Fprintf(w, "\n%s  %s\n", t.style.paint(bold, fmt.Sprintf("%-10s", s.name)), about)
		server.script("/"+s.name, s.fails...)
		v, err := s.call(context.Background(), target{client, server.url + "/" + s.name, policy.Named(s.name)})
		t.returned(v, err)
		if err := s.check(err); err != nil {
			wrong = append(wrong, err)
		}
	}
	fmt.Fprintln(w)
	t.summary()
	if wrong != nil {
		fmt.Fprintln(w, " Not all of them ended as they should.")
		return errors.Join(wrong...)
	}
	fmt.Fprint(w, ` Each ended as it should.

Next:  README.md      what the library does, and which settings to choose
       go test ./...  every test of this module, from its root
       retrytest      the package that tests your own retries, without waiting
`)
	return nil
}

// shared returns the policy of all calls.
func shared(hooks retry.Hooks) retry.Policy {
	return retry.Policy{
		MaxAttempts:    5,
		AttemptTimeout: 500 * time.Millisecond,
		Backoff:        retry.Exponential{Base: 80 * time.Millisecond, Max: time.Second},
		MaxRetryAfter:  5 * time.Second,
		Hooks:          hooks,
		Rand:           seeded(1),
	}
}

// newClient returns the client of all calls. Where net/http reuses a connection and finds it
// broken, it sends a GET again by itself. Here every attempt is to be seen.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// check returns an error if the call, which returned err, ended for another
// reason than it should.
func (s scenario) check(err error) error {
	got := retry.ReasonNone
	if err != nil {
		e, ok := errors.AsType[*retry.Error](err)
		if !ok {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		got = e.Reason
	}
	if got != s.ends {
		return fmt.Errorf("%s ended by %s, want %s", s.name, ending(got), ending(s.ends))
	}
	return nil
}

// seeded returns random numbers that are the same in each run of the program,
// for any number of goroutines.
func seeded(seed uint64) func() float64 {
	r := rand.New(rand.NewPCG(seed, seed))
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
}
