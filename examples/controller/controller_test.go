package controller_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/controller"
	"k8s.io/client-go/util/workqueue"
)

var errDown = errors.New("down")

// policy is for a controller: an item is tried for as long as it is there.
var policy = retry.Policy{
	Name:        "reconcile",
	MaxAttempts: retry.Unlimited,
	Backoff:     retry.Exponential{Base: time.Second, Max: time.Minute, Jitter: retry.NoJitter},

	ThrottleBackoff: retry.Constant(0),           // beside what the server says,
	Rand:            func() float64 { return 0 }, // and nothing is added to that at random
}

// control takes an item from a queue until it is done, as controller-runtime does, and returns
// when it was taken up. Each error is that of one try; nil queues it again without one.
func control(t *testing.T, p retry.Policy, errs ...error) (at []time.Duration, dead bool) {
	l := &controller.Limiter[string]{Policy: p}
	queue := workqueue.NewTypedRateLimitingQueue(l)
	defer queue.ShutDown()
	begin := time.Now()
	queue.Add("ns/name")
	for _, err := range errs {
		key, _ := queue.Get()
		at = append(at, time.Since(begin))
		switch {
		case err != nil && !l.Failed(key, err):
			queue.Done(key)
			return at, true
		default:
			queue.AddRateLimited(key)
		}
		queue.Done(key)
	}
	key, _ := queue.Get()
	at = append(at, time.Since(begin))
	if n := queue.NumRequeues(key); n != len(errs) {
		t.Errorf("%d requeues, want %d", n, len(errs))
	}
	queue.Forget(key)
	queue.Done(key)
	if n := queue.NumRequeues(key); n != 0 {
		t.Errorf("%d requeues of an item that is done", n)
	}
	return at, false
}

func TestLimiter(t *testing.T) {
	few := policy
	few.MaxAttempts = 2
	const s = time.Second
	for _, tt := range []struct {
		name string
		p    retry.Policy
		errs []error
		at   []time.Duration
		dead bool
	}{
		{"waits grow", policy, []error{errDown, errDown, errDown}, []time.Duration{0, s, 3 * s, 7 * s}, false},
		{"the server says when", policy, []error{retry.After(errDown, 30*s), errDown}, []time.Duration{0, 30 * s, 32 * s}, false},
		{"queued again without an error", policy, []error{nil, nil}, []time.Duration{0, s, 3 * s}, false},
		{"it cannot succeed", policy, []error{errDown, retry.Stop(errDown)}, []time.Duration{0, s}, true},
		{"often enough", few, []error{errDown, errDown}, []time.Duration{0, s}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at, dead := control(t, tt.p, tt.errs...)
				if !slices.Equal(at, tt.at) || dead != tt.dead {
					t.Errorf("taken up at %v, dead %t; want %v, %t", at, dead, tt.at, tt.dead)
				}
			})
		})
	}
}

// A budget gets back what the run of an item holds of it.
func TestForgetEndsTheRun(t *testing.T) {
	p, b := policy, new(counting)
	p.Budget = b
	l := &controller.Limiter[string]{Policy: p}
	for range 3 {
		l.Failed("a", errDown)
		l.When("a")
		l.Forget("a")
	}
	if b.withdrawn != 3 || b.ended != 3 {
		t.Errorf("%d withdrawn, %d ended; want 3, 3", b.withdrawn, b.ended)
	}
}

type counting struct {
	retry.EarnedBudget
	withdrawn, ended int
}

func (b *counting) Withdraw(retry.Withdrawal) bool { b.withdrawn++; return true }
func (b *counting) End(retry.Outcome)              { b.ended++ }
