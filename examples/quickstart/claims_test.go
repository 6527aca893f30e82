package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// seen is what has happened in a scenario.
type seen struct {
	scenario
	policy   retry.Policy
	attempts []retry.Attempt
	waits    []retry.Attempt
	methods  []string // of the requests that reached the server
	reason   retry.Reason
	cause    error
	elapsed  time.Duration
}

// first is the first attempt.
func (s *seen) first() retry.Attempt { return s.attempts[0] }

// failed reports whether attempt n has failed with want.
func (s *seen) failed(n int, want error) bool { return errors.Is(s.attempts[n-1].Err, want) }

// got reports whether the server answered attempt n with a status.
func (s *seen) got(n, code int) bool {
	e, ok := errors.AsType[*retryhttp.StatusError](s.attempts[n-1].Err)
	return ok && e.Code == code
}

// succeeded reports whether attempt n is the last one, and a success.
func (s *seen) succeeded(n int) bool {
	return s.reason == retry.ReasonNone && len(s.attempts) == n && s.attempts[n-1].Err == nil
}

// gaveUp reports whether the run ended after n attempts without a wait after the last one.
func (s *seen) gaveUp(reason retry.Reason, n int) bool {
	return s.reason == reason && len(s.attempts) == n && len(s.waits) == n-1
}

// claims has a test for each sentence that the program says about a call, in their order.
var claims = map[string]func(t *testing.T, s *seen) bool{
	"A bad moment: an overload, half a body, a reset connection.": func(_ *testing.T, s *seen) bool {
		return s.got(1, http.StatusServiceUnavailable) && s.failed(2, io.ErrUnexpectedEOF) && s.failed(3, syscall.ECONNRESET)
	},
	"Then it works.": func(_ *testing.T, s *seen) bool { return s.succeeded(4) },

	"The server says when to come back.": func(_ *testing.T, s *seen) bool { return s.first().Hint == time.Second && s.succeeded(2) },
	"The wait is longer than that, never shorter.": func(t *testing.T, s *seen) bool {
		least := watch(t, s.scenario, func() float64 { return 0 })
		return s.waits[0].Delay > s.first().Hint && least.waits[0].Delay >= s.first().Hint
	},

	"The first answer never comes.":                          func(_ *testing.T, s *seen) bool { return s.failed(1, retry.ErrAttemptTimeout) },
	"Policy.AttemptTimeout gives up on it, not on the call.": func(_ *testing.T, s *seen) bool { return s.succeeded(2) },

	"No error, but not the answer yet: retry.Until polls, here with a Constant backoff.": func(_ *testing.T, s *seen) bool {
		return s.failed(1, retry.ErrRejected) && s.failed(2, retry.ErrRejected) && s.waits[0].Delay == s.waits[1].Delay && s.succeeded(3)
	},

	"409 Conflict would be permanent.": func(t *testing.T, s *seen) bool {
		plain := s.scenario
		plain.call = getWith[Page](nil)
		return watch(t, plain, nil).gaveUp(retry.ReasonPermanent, 1)
	},
	"Policy.Classify knows that this conflict goes away.": func(_ *testing.T, s *seen) bool {
		return s.got(1, http.StatusConflict) && s.got(2, http.StatusConflict) && s.succeeded(3)
	},

	"A POST.": func(_ *testing.T, s *seen) bool { return s.methods[0] == http.MethodPost },
	"One replica is down, and a refused connection proves that it never ran.": func(_ *testing.T, s *seen) bool {
		return s.failed(1, syscall.ECONNREFUSED) && s.first().Class == retry.Unprocessed && s.succeeded(2) && len(s.methods) == 1
	},

	"A POST, and the connection broke: did it run?": func(_ *testing.T, s *seen) bool {
		return s.methods[0] == http.MethodPost && s.failed(1, syscall.ECONNRESET)
	},
	"Nobody knows.":             func(_ *testing.T, s *seen) bool { return s.first().Class == retry.Transient },
	"retryhttp does not retry.": func(_ *testing.T, s *seen) bool { return s.gaveUp(retry.ReasonNotIdempotent, 1) },

	"What is not there will not be there in 80 ms either.": func(_ *testing.T, s *seen) bool {
		return s.got(1, http.StatusNotFound) && s.gaveUp(retry.ReasonPermanent, 1) &&
			s.policy.Backoff.Delay(retry.Step{Retry: 1, Rand: 1}) <= 80*time.Millisecond
	},

	"The server wants two minutes.": func(_ *testing.T, s *seen) bool { return s.first().Hint == 2*time.Minute },
	"The policy allows five seconds, and sooner is no help.": func(_ *testing.T, s *seen) bool {
		return s.policy.MaxRetryAfter == 5*time.Second && s.gaveUp(retry.ReasonRetryAfter, 1)
	},

	"A server that never recovers gets the attempts it is allowed, here four.": func(_ *testing.T, s *seen) bool {
		return s.policy.MaxAttempts == 4 && s.gaveUp(retry.ReasonMaxAttempts, 4)
	},

	"After a 504 a retry costs ten tokens.": func(_ *testing.T, s *seen) bool {
		return s.got(1, http.StatusGatewayTimeout) && s.gaveUp(retry.ReasonBudget, 1) && strings.Contains(fmt.Sprint(s.cause), "costs 10 tokens")
	},
	"A new budget has nine, and get-stock used some.": func(t *testing.T, s *seen) bool {
		anew := scenarios() // with a budget of their own
		fresh := watch(t, anew[slices.IndexFunc(anew, func(o scenario) bool { return o.name == s.name })], nil)
		return strings.HasSuffix(fmt.Sprint(fresh.cause), " 9 are left") && strings.HasSuffix(fmt.Sprint(s.cause), " 3 are left")
	},

	"As many attempts as it likes (retry.Unlimited), but only for 400 ms.": func(_ *testing.T, s *seen) bool {
		return s.policy.MaxAttempts == retry.Unlimited && s.policy.MaxElapsed == 400*time.Millisecond &&
			s.reason == retry.ReasonMaxElapsed && len(s.attempts) == len(s.waits)+1
	},

	"The caller has 300 ms, the server wants 1 s: the error comes now, not in 300 ms.": func(_ *testing.T, s *seen) bool {
		return s.first().Hint == time.Second && s.gaveUp(retry.ReasonDeadline, 1)
	},

	"The caller cancels after 200 ms, in the middle of a wait, which ends there.": func(_ *testing.T, s *seen) bool {
		return s.reason == retry.ReasonCanceled && len(s.attempts) == 1 && len(s.waits) == 1 && s.elapsed < s.waits[0].Delay
	},
}

// Each sentence that the program says about a call is true, and each has a test.
func TestSentences(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	said := map[string]bool{}
	for _, scenario := range scenarios() {
		s := watch(t, scenario, nil)
		for _, sentence := range regexp.MustCompile(`\S.*?[.?](?: |$)`).FindAllString(scenario.about, -1) {
			sentence = strings.TrimSpace(sentence)
			said[sentence] = true
			if claim, ok := claims[sentence]; !ok {
				t.Errorf("%s: no test for %q", scenario.name, sentence)
			} else if !claim(t, s) {
				t.Errorf("%s: %q is false: %+v", scenario.name, sentence, s.attempts)
			}
		}
	}
	for sentence := range claims {
		if !said[sentence] {
			t.Errorf("nobody says %q", sentence)
		}
	}
}

// watch runs a scenario as the program does, with other random numbers unless random is nil.
func watch(t *testing.T, s scenario, random func() float64) *seen {
	t.Helper()
	server, err := startFlaky(seeded(1))
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	got := &seen{scenario: s}
	steps := make([]step, len(s.fails))
	for i, fail := range s.fails {
		steps[i] = func(w http.ResponseWriter, r *http.Request) {
			got.methods = append(got.methods, r.Method)
			fail(w, r)
		}
	}
	server.script("/"+s.name, steps...)
	policy := shared(retry.Hooks{
		Start: func(ctx context.Context, p retry.Policy) context.Context {
			got.policy = p
			return ctx
		},
		AttemptDone: func(_ context.Context, a retry.Attempt) { got.attempts = append(got.attempts, a) },
		Wait:        func(_ context.Context, a retry.Attempt) { got.waits = append(got.waits, a) },
		Done: func(_ context.Context, sum retry.Summary) {
			got.reason, got.elapsed = sum.Reason, sum.Elapsed
			if e, ok := errors.AsType[*retry.Error](sum.Err); ok {
				got.cause = e.Cause
			}
		},
	})
	if random != nil {
		policy.Rand = random
	}
	_, _ = s.call(t.Context(), target{newClient(), server.url + "/" + s.name, policy})
	if len(got.attempts) == 0 {
		t.Fatalf("%s made no attempt", s.name)
	}
	return got
}

// What the program prints before and after the calls.
func TestWhatIsAroundTheCalls(t *testing.T) {
	p := shared(retry.Hooks{})
	if p.MaxAttempts != 5 || p.AttemptTimeout != 500*time.Millisecond {
		t.Errorf("the policy has %d attempts of %v", p.MaxAttempts, p.AttemptTimeout)
	}
	for i, below := range []time.Duration{80, 160, 320} {
		if d := p.Backoff.Delay(retry.Step{Retry: i + 1, Rand: 1}); d != below*time.Millisecond-1 {
			t.Errorf("wait %d is below %v", i+1, d)
		}
		if d := p.Backoff.Delay(retry.Step{Retry: i + 1, Rand: 0}); d != 0 {
			t.Errorf("wait %d is from %v", i+1, d)
		}
	}
	fail := 0
	for _, s := range scenarios() {
		if s.ends != retry.ReasonNone {
			fail++
		}
	}
	if all := len(scenarios()); all != 14 || 2*fail <= all {
		t.Errorf("%d of %d calls are meant to fail", fail, all)
	}
	for _, name := range []string{"README.md", "retrytest/doc.go", "go.mod"} {
		if _, err := os.Stat("../../" + name); err != nil {
			t.Error(err)
		}
	}
}
