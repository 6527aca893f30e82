package retryqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/budgettest"
	"github.com/goretry/retry/retryqueue"
	"github.com/goretry/retry/retrytest"
)

var (
	now     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	errDown = errors.New("down")
)

const ms = time.Millisecond

// judged is an error that says itself what it means.
type judged struct {
	class retry.Class
	hint  time.Duration
}

func (e judged) Error() string             { return fmt.Sprint(e.class, " ", e.hint) }
func (e judged) RetryAfter() time.Duration { return e.hint }

func byItself(err error) retry.Class {
	if e, ok := errors.AsType[judged](err); ok {
		return e.class
	}
	return retry.Unknown
}

// ledger is a budget that notes what it is told.
type ledger struct {
	refuse  bool
	ended   int
	asked   []int
	retried retry.Class
	ok      bool
	names   string // of each Withdraw and End
	clock   clockx.Clock
}

func (b *ledger) Withdraw(w retry.Withdrawal) bool {
	b.asked, b.names = append(b.asked, w.Retry), b.names+w.Name
	return !b.refuse
}
func (b *ledger) End(o retry.Outcome) {
	b.ended, b.retried, b.ok, b.names, b.clock = b.ended+1, o.Retried, o.OK, b.names+o.Name, o.Clock
}

// Every class of error meets every limit, alone and together. What has to come of
// it is said here a second time, from the contract.
func TestAfterOverAllClassesAndLimits(t *testing.T) {
	const backoff = 7 * time.Second // times the retry's number
	classes := []retry.Class{retry.Unknown, retry.Permanent, retry.Transient, retry.Throttled, retry.Unprocessed}
	hints := []time.Duration{0, 20 * time.Second, time.Minute, time.Minute + 1, math.MaxInt64}
	deliveries := []int{math.MinInt, -1, 0, 1, 2, 3, 4, 5, math.MaxInt}
	ages := []time.Duration{math.MinInt64, -1, 0, 1, 30 * time.Second, time.Hour - 1, time.Hour, time.Hour + 1, math.MaxInt64}
	limits := []int{math.MinInt, retry.Unlimited, 0, 1, 4, math.MaxInt}
	elapses := []time.Duration{math.MinInt64, 0, 1, time.Hour, math.MaxInt64}
	cases := 0
	for _, class := range classes {
		for _, hint := range hints {
			for _, delivered := range deliveries {
				for _, age := range ages {
					for _, limit := range limits {
						for _, elapsed := range elapses {
							for _, nonIdempotent := range []bool{false, true} {
								for _, budget := range []*ledger{nil, {}, {refuse: true}} {
									cases++
									p := retry.Policy{
										Name: "job", MaxAttempts: limit, MaxElapsed: elapsed, MaxRetryAfter: time.Minute,
										Classify: byItself, NonIdempotent: nonIdempotent,
										Backoff: retry.Linear{Base: backoff, Max: math.MaxInt64, Jitter: retry.NoJitter},
									}
									if budget != nil {
										p.Budget = budget
									}
									err := judged{class, hint}
									got := (retryqueue.Delivery{Number: delivered, Stored: now.Add(-age), Now: now}).After(p, err)

									number, old := max(delivered, 1), max(now.Sub(now.Add(-age)), 0)
									wait := saturated(float64(hint) + float64(backoff)*float64(number))
									most := limit
									switch {
									case limit == 0 && elapsed <= 0:
										most = 3
									case limit == 0:
										most = int(min(max(int64(elapsed/ms), 3), math.MaxInt))
									case limit < 0:
										most = math.MaxInt
									}
									meaning := class
									if class == retry.Unknown { // DefaultClassifier's turn
										meaning = p.Judge(err).Class
									}
									safe := class == retry.Unprocessed
									reason := retry.ReasonNone
									switch {
									case class == retry.Permanent:
										reason = retry.ReasonPermanent
									case nonIdempotent && !safe:
										reason = retry.ReasonNotIdempotent
									case number >= most && most < math.MaxInt: // which means no limit
										reason = retry.ReasonMaxAttempts
									case hint > time.Minute:
										reason = retry.ReasonRetryAfter
									case elapsed > 0 && float64(old)+float64(wait) > float64(elapsed) && elapsed < math.MaxInt64:
										reason = retry.ReasonMaxElapsed
									case budget != nil && budget.refuse:
										reason = retry.ReasonBudget
									}
									want := retryqueue.Decision{Action: retryqueue.Dead}
									switch reason {
									case retry.ReasonNone:
										want = retryqueue.Decision{Action: retryqueue.Retry, Delay: wait}
									case retry.ReasonBudget:
										want = retryqueue.Decision{Action: retryqueue.Retry, Delay: saturated(2*float64(wait) + float64(time.Second))}
										if elapsed > 0 {
											want.Delay = min(want.Delay, elapsed-old)
										}
									}
									say := func(format string, args ...any) {
										t.Errorf("class %v, hint %v, delivery %d, age %v, limits %d and %v, nonIdempotent %v, budget %+v:\n%s", class, hint,
											delivered, age, limit, elapsed, nonIdempotent, budget, fmt.Sprintf(format, args...))
									}
									if got.Action != want.Action || got.Delay != want.Delay {
										say("After() = %v in %v, want %v in %v", got.Action, got.Delay, want.Action, want.Delay)
									}
									checkError(say, got.Err, reason, number, old, err)
									checkLedger(say, budget, reason, meaning)
									if t.Failed() {
										return
									}
								}
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}

func checkError(say func(string, ...any), e *retry.Error, reason retry.Reason, attempts int, old time.Duration, last error) {
	if reason == retry.ReasonNone {
		if e != nil {
			say("Err = %v, want none", e)
		}
		return
	}
	if e == nil || e.Reason != reason {
		say("Err = %v, want reason %v", e, reason)
		return
	}
	if e.Name != "job" || e.Attempts != attempts || e.Elapsed != old || e.Waited != old || len(e.Errs) != 1 || e.Errs[0] != last || (e.Cause != nil) != (reason == retry.ReasonRetryAfter) {
		say("Err = %+v, want job, %d attempts, age %v, only %v", e, attempts, old, last)
	}
}

func checkLedger(say func(string, ...any), b *ledger, reason retry.Reason, meaning retry.Class) {
	if b == nil {
		return
	}
	asked, retried := 0, retry.Unknown
	switch reason {
	case retry.ReasonNone:
		asked, retried = 1, meaning
	case retry.ReasonBudget:
		asked = 1
	}
	if b.ended != 1 || len(b.asked) != asked || asked == 1 && b.asked[0] != 1 || b.retried != retried || b.ok {
		say("the budget saw %+v, want one run, %d question about retry 1, and its end after %v", b, asked, retried)
	}
	*b = ledger{refuse: b.refuse}
}

func saturated(d float64) time.Duration {
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}

func TestSuccessIsAckAndTheBudgetIsTold(t *testing.T) {
	budget := &ledger{}
	p := retry.Policy{Name: "j", Budget: budget, MaxAttempts: 1, MaxElapsed: 1}
	for _, delivered := range []int{math.MinInt, 1, 9, math.MaxInt} {
		*budget = ledger{}
		if d := (retryqueue.Delivery{Number: delivered, Now: now}).After(p, nil); d != (retryqueue.Decision{Action: retryqueue.Ack}) {
			t.Errorf("After(delivery %d, nil) = %+v, want Ack alone", delivered, d)
		}
		if budget.ended != 1 || !budget.ok || budget.retried != retry.Unknown || budget.asked != nil || budget.names != "j" {
			t.Errorf("the budget saw %+v, want a run that succeeded", *budget)
		}
	}
	for _, err := range []error{retry.Answer(errDown), fmt.Errorf("handle: %w", retry.Answer(errDown))} {
		*budget = ledger{}
		if d := (retryqueue.Delivery{Number: 3, Now: now}).After(p, err); d != (retryqueue.Decision{Action: retryqueue.Ack}) {
			t.Errorf("After(%v) = %+v, want Ack alone", err, d)
		}
		if budget.ended != 1 || !budget.ok || budget.asked != nil {
			t.Errorf("after an answer the budget saw %+v, want a run that succeeded", *budget)
		}
	}
	inner := retry.Run(t.Context(), retry.Policy{}, func(context.Context) error { return retry.Answer(retry.Stop(errDown)) })
	if d := (retryqueue.Delivery{Number: 1, Now: now}).After(p, inner); d.Action != retryqueue.Dead {
		t.Errorf("After(an inner run's answer) = %+v, want Dead: the handler has not said that the message is done", d)
	}
	if d := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(retry.Policy{}, nil); d != (retryqueue.Decision{Action: retryqueue.Ack}) {
		t.Errorf("without a budget After() = %+v, want Ack alone", d)
	}
}

func TestTheBudgetIsOnThePolicysClock(t *testing.T) {
	v := clockx.NewVirtual(now)
	for given, want := range map[clockx.Clock]clockx.Clock{nil: clockx.System(), v: v} {
		for _, err := range []error{nil, errDown, retry.Stop(errDown), retry.Answer(errDown)} {
			budget := new(ledger)
			(retryqueue.Delivery{Number: 1, Now: now}).After(retry.Policy{Budget: budget, Clock: given}, err)
			if budget.clock != want {
				t.Errorf("after %v the budget of a policy on %T got %T, want %T", err, given, budget.clock, want)
			}
		}
	}
}

func TestMarksAreObeyed(t *testing.T) {
	p := retry.Policy{Backoff: retry.Constant(time.Second), Rand: func() float64 { return 0 }}
	d := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(p, retry.After(errDown, time.Minute))
	if want := (retryqueue.Decision{Action: retryqueue.Retry, Delay: 61 * time.Second}); d != want {
		t.Errorf("After(a hint of 1m) = %+v, want %+v", d, want)
	}
	d = (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(p, retry.Stop(errDown))
	if d.Action != retryqueue.Dead || d.Err.Reason != retry.ReasonPermanent || d.Err.Last() != errDown {
		t.Errorf("After(Stop) = %+v, want it dead, with the error as it was", d)
	}
}

// A server that wants no retry now says nothing about a delivery later, but a few
// milliseconds are not later.
func TestRefusedIsDeliveredAgainAsThrottled(t *testing.T) {
	never := func(error) retry.Class { return retry.Permanent } // a mark goes before it
	inner := func(errs ...error) error {
		return &retry.Error{Reason: retry.ReasonRefused, Attempts: 1, Errs: errs}
	}
	for name, p := range map[string]retry.Policy{
		"plain":           {},
		"one delivery":    {MaxAttempts: 1},
		"not idempotent":  {NonIdempotent: true},
		"too old":         {MaxElapsed: time.Second},
		"an empty budget": {Budget: &ledger{refuse: true}},
		"Classify":        {Classify: never},
	} {
		p.Name, p.Backoff, p.ThrottleBackoff, p.Rand = "job", retry.Constant(time.Hour), retry.Constant(time.Minute), func() float64 { return 0 }
		want := (retryqueue.Delivery{Number: 2, Stored: now.Add(-time.Hour), Now: now}).After(p, retry.After(errDown, time.Second))
		got := (retryqueue.Delivery{Number: 2, Stored: now.Add(-time.Hour), Now: now}).After(p, retry.Refuse(errDown))
		if got.Action != want.Action || got.Delay != want.Delay || fmt.Sprint(got.Err) != fmt.Sprint(want.Err) {
			t.Errorf("%s: After(Refuse) = %+v, want it as for After(err, time.Second): %+v", name, got, want)
		}
		if got.Err != nil && got.Err.Last() != errDown {
			t.Errorf("%s: Last() = %#v, want what was marked", name, got.Err.Last())
		}
	}
	p := retry.Policy{Backoff: retry.Constant(time.Minute), Rand: func() float64 { return 0 }}
	hint := judged{hint: 20 * time.Millisecond}
	for _, err := range []error{
		fmt.Errorf("orders: %w", inner(hint)), errors.Join(errDown, inner(errDown, hint)),
		retry.Refuse(hint), fmt.Errorf("orders: %w", retry.Refuse(fmt.Errorf("busy: %w", hint))),
	} {
		if got, want := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(p, err), time.Minute+20*time.Millisecond; got.Action != retryqueue.Retry || got.Delay != want {
			t.Errorf("After(%v) = %+v, want a retry in %v", err, got, want)
		}
	}
	for name, tt := range map[string]struct {
		p    retry.Policy
		want time.Duration
	}{
		"the default backoff":          {retry.Policy{}, time.Second},
		"a policy that waits for less": {retry.Policy{MaxRetryAfter: 300 * time.Millisecond}, 300 * time.Millisecond},
		"for as little as there is":    {retry.Policy{MaxRetryAfter: 1}, 1},
	} {
		tt.p.Rand = func() float64 { return 0 }
		if got := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(tt.p, retry.Refuse(errDown)); got.Action != retryqueue.Retry || got.Delay != tt.want {
			t.Errorf("%s: After(Refuse) = %+v, want a retry in %v", name, got, tt.want)
		}
	}
}

func TestThrottleBackoffPlansTheWait(t *testing.T) {
	p := retry.Policy{Backoff: retry.Constant(time.Second), ThrottleBackoff: retry.Constant(time.Minute), Classify: byItself}
	if d := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(p, judged{class: retry.Throttled}); d.Delay != time.Minute {
		t.Errorf("Delay = %v, want ThrottleBackoff's 1m", d.Delay)
	}
}

// The second Loop must not draw another number: the wait would not be twice the
// planned one.
func TestRefusedRetryIsPlannedWithTheSameRandomNumber(t *testing.T) {
	drawn := 0
	p := retry.Policy{
		Budget:  &ledger{refuse: true},
		Backoff: retry.Exponential{Base: 800 * ms},
		Rand: func() float64 {
			drawn++
			return float64(drawn) / 4
		},
	}
	d := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(p, errDown)
	if want := 2*200*ms + time.Second; d.Action != retryqueue.Retry || d.Delay != want || drawn != 1 {
		t.Errorf("After() = %v in %v with %d random numbers, want retry in %v with 1", d.Action, d.Delay, drawn, want)
	}
	p.Rand = nil
	seen := map[time.Duration]bool{}
	for range 20 {
		d := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(p, errDown)
		if d.Delay < time.Second || d.Delay >= 2600*ms {
			t.Errorf("Delay = %v, want it in [1s, 2.6s)", d.Delay)
		}
		seen[d.Delay] = true
	}
	if len(seen) < 2 {
		t.Error("without Rand all waits are alike")
	}
}

func TestDelayStaysWithinMaxElapsedWhenTheBudgetRefuses(t *testing.T) {
	p := retry.Policy{MaxElapsed: 10 * time.Second, Backoff: retry.Constant(10 * time.Second)}
	if d := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(p, errDown); d.Action != retryqueue.Retry || d.Delay != 10*time.Second {
		t.Errorf("After() = %+v, want retry in 10s", d)
	}
	p.Budget = &ledger{refuse: true}
	for limit, want := range map[time.Duration]time.Duration{
		0: 21 * time.Second, 21 * time.Second: 21 * time.Second, 20 * time.Second: 20 * time.Second, 10 * time.Second: 10 * time.Second,
	} {
		p.MaxAttempts, p.MaxElapsed = 3, limit
		if d := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(p, errDown); d.Action != retryqueue.Retry || d.Delay != want || d.Err.Reason != retry.ReasonBudget {
			t.Errorf("with MaxElapsed %v After() = %+v, want retry in %v, because of the budget", limit, d, want)
		}
	}
	p.Backoff, p.MaxElapsed = retry.Constant(0), 1
	if d := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(p, errDown); d.Action != retryqueue.Retry || d.Delay != 1 {
		t.Errorf("with a nanosecond left After() = %+v, want retry in that", d)
	}
}

func TestPutOffWaitSaturates(t *testing.T) {
	const most = (math.MaxInt64 - time.Second) / 2
	for planned, want := range map[time.Duration]time.Duration{
		0: time.Second, most: 2*most + time.Second, most + 1: math.MaxInt64, math.MaxInt64 / 2: math.MaxInt64, math.MaxInt64: math.MaxInt64,
	} {
		d := (retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(retry.Policy{Budget: &ledger{refuse: true}, Backoff: retry.Constant(planned)}, errDown)
		if d.Delay != want {
			t.Errorf("twice %v and a second is %v, want %v", planned, d.Delay, want)
		}
	}
}

func TestNoPlaceInABudgetIsHeldBetweenDeliveries(t *testing.T) {
	budget := new(budgettest.Places)
	p := retry.Policy{Budget: budget, MaxAttempts: retry.Unlimited}
	for i := range 100 {
		if d := (retryqueue.Delivery{Number: i, Stored: now, Now: now}).After(p, errDown); d.Err != nil || budget.Balance() != 1 {
			t.Fatalf("after %d deliveries: %+v, and a balance of %v", i, d, budget.Balance())
		}
	}
	boom := func(error) retry.Class { panic("boom") }
	backoff := retry.BackoffFunc(func(retry.Step) time.Duration { panic("boom") })
	exit := retry.BackoffFunc(func(retry.Step) time.Duration {
		runtime.Goexit()
		return 0
	})
	for name, p := range map[string]retry.Policy{
		"a panic in Classify": {Classify: boom},
		"a panic in Backoff":  {Backoff: backoff},
		"Goexit in Backoff":   {Backoff: exit},
	} {
		seen := &ledger{}
		p.Budget = seen
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = recover() }()
			(retryqueue.Delivery{Number: 1, Stored: now, Now: now}).After(p, errDown)
		}()
		<-ended
		if seen.ended > 1 || seen.ok {
			t.Errorf("%s: the budget saw %+v, want a run that ended", name, *seen)
		}
	}
}

// A success ends the budget's run, and a panic there is a panic of the delivery: hooks hear its end.
func TestPanicOfABudgetThatHearsOfASuccess(t *testing.T) {
	var heard []string
	p := retry.Policy{Budget: fragile{}, Hooks: retry.Hooks{
		AttemptDone: func(_ context.Context, a retry.Attempt) { heard = append(heard, fmt.Sprint("attempt done: ", a.Err)) },
		Done:        func(_ context.Context, s retry.Summary) { heard = append(heard, fmt.Sprint("done: ", s.Reason)) },
	}}
	var out any
	func() {
		defer func() { out = recover() }()
		_ = retryqueue.Delivery{Number: 1}.Handle(t.Context(), p, func(context.Context) error { return nil },
			func(context.Context, retryqueue.Decision) error { return nil })
	}()
	want := []string{"attempt done: <nil>", "done: panic"}
	if out != "boom" || !slices.Equal(heard, want) {
		t.Errorf("out comes %v, and hooks hear %q, want boom and %q", out, heard, want)
	}
}

// fragile is a budget whose End panics.
type fragile struct{}

func (fragile) Withdraw(retry.Withdrawal) bool { return true }
func (fragile) End(retry.Outcome)              { panic("boom") }

func TestFirstUnknownOrInTheFutureCountsAsNow(t *testing.T) {
	p := retry.Policy{MaxAttempts: 1}
	for name, tt := range map[string]struct {
		first, now time.Time
		want       time.Duration
	}{
		"zero":                     {time.Time{}, now, 0},
		"in the future":            {now.Add(time.Hour), now, 0},
		"now":                      {now, now, 0},
		"an hour ago":              {now.Add(-time.Hour), now, time.Hour},
		"longer than can be said":  {time.Unix(-1<<60, 0), now, math.MaxInt64},
		"both zero":                {time.Time{}, time.Time{}, 0},
		"now has a monotonic part": {time.Now().Round(0).Add(-time.Hour), time.Now(), -1},
	} {
		e := (retryqueue.Delivery{Number: 1, Stored: tt.first, Now: tt.now}).After(p, errDown).Err
		if tt.want < 0 {
			if e.Elapsed < 59*time.Minute || e.Elapsed > 61*time.Minute {
				t.Errorf("%s: Elapsed = %v, want about an hour", name, e.Elapsed)
			}
			continue
		}
		if e.Elapsed != tt.want {
			t.Errorf("%s: Elapsed = %v, want %v", name, e.Elapsed, tt.want)
		}
	}
}

func TestBefore(t *testing.T) {
	three := retry.Policy{Name: "job", MaxElapsed: time.Hour, MaxAttempts: 3}
	for _, tt := range []struct {
		name      string
		p         retry.Policy
		delivered int
		age       time.Duration
		want      retry.Reason
	}{
		{"the first", three, 1, 0, retry.ReasonNone},
		{"the last", three, 3, 0, retry.ReasonNone},
		{"one too many", three, 4, 0, retry.ReasonMaxAttempts},
		{"many too many", three, math.MaxInt, 0, retry.ReasonMaxAttempts},
		{"too many and too old", three, 4, 2 * time.Hour, retry.ReasonMaxAttempts},
		{"as old as allowed", three, 2, time.Hour, retry.ReasonNone},
		{"a second older than the least that can be allowed", retry.Policy{MaxElapsed: 1}, 2, time.Second + 1, retry.ReasonNone},
		{"more than that", retry.Policy{MaxElapsed: 1}, 2, time.Second + 2, retry.ReasonMaxElapsed},
		{"a tenth older than allowed", three, 2, 66 * time.Minute, retry.ReasonNone},
		{"older than that", three, 2, 66*time.Minute + 1, retry.ReasonMaxElapsed},
		{"too many, from the future", three, 4, -2 * time.Hour, retry.ReasonMaxAttempts},
		{"older than allowed at first", three, 1, math.MaxInt64, retry.ReasonNone},
		{"older than allowed and not counted", three, math.MinInt, math.MaxInt64, retry.ReasonNone},
		{"from the future", three, 2, -2 * time.Hour, retry.ReasonNone},
		{"the zero policy's last", retry.Policy{}, 3, math.MaxInt64, retry.ReasonNone},
		{"beyond the zero policy", retry.Policy{}, 4, 0, retry.ReasonMaxAttempts},
		{"one for each millisecond, if time is the limit", retry.Policy{MaxElapsed: time.Hour}, 3600_000, time.Hour, retry.ReasonNone},
		{"one more than that", retry.Policy{MaxElapsed: time.Hour}, 3600_001, time.Hour, retry.ReasonMaxAttempts},
		{"no limit at all", retry.Policy{MaxAttempts: retry.Unlimited}, math.MaxInt, math.MaxInt64, retry.ReasonNone},
		{"once", retry.Policy{MaxAttempts: 1}, 1, time.Hour, retry.ReasonNone},
		{"once, and it crashed", retry.Policy{MaxAttempts: 1}, 2, time.Hour, retry.ReasonMaxAttempts},
		{"a crash is no error that NonIdempotent could judge", retry.Policy{NonIdempotent: true}, 2, 0, retry.ReasonNone},
	} {
		budget := &ledger{refuse: true}
		tt.p.Budget = budget
		first := now.Add(-tt.age)
		d, run := (retryqueue.Delivery{Number: tt.delivered, Stored: first, Now: now}).Before(tt.p)
		if budget.ended != 0 || budget.asked != nil {
			t.Errorf("%s: the budget was told %+v, want nothing", tt.name, *budget)
		}
		if tt.want == retry.ReasonNone {
			if !run || d != (retryqueue.Decision{}) {
				t.Errorf("%s: Before() = %+v, %v, want the handler to run", tt.name, d, run)
			}
			continue
		}
		if run || d.Action != retryqueue.Dead || d.Delay != 0 || d.Err == nil {
			t.Errorf("%s: Before() = %+v, %v, want Dead", tt.name, d, run)
			continue
		}
		e := d.Err
		if e.Reason != tt.want || e.Name != tt.p.Name || e.Attempts != tt.delivered-1 || e.Elapsed != max(tt.age, 0) || e.Waited != e.Elapsed {
			t.Errorf("%s: Err = %+v, want %v after %d attempts and %v", tt.name, e, tt.want, tt.delivered-1, tt.age)
		}
		if len(e.Errs) != 1 || e.Last() != retryqueue.ErrCrashed || !errors.Is(e, retryqueue.ErrCrashed) {
			t.Errorf("%s: Errs = %v, want ErrCrashed", tt.name, e.Errs)
		}
	}
	if d, run := (retryqueue.Delivery{Number: 9, Now: now}).Before(three); run || d.Err.Elapsed != 0 {
		t.Errorf("Before(first unknown) = %+v, %v, want Dead with no age", d, run)
	}
}

// What After has granted keeps its error although the queue is a little late.
func TestLateQueueLosesNoError(t *testing.T) {
	p := retry.Policy{MaxElapsed: 10 * time.Second, MaxAttempts: retry.Unlimited, Backoff: retry.Constant(5 * time.Second)}
	first := retryqueue.Delivery{Number: 1, Stored: now, Now: now.Add(5 * time.Second)}
	for name, budget := range map[string]retry.Budget{"granted": nil, "postponed": &ledger{refuse: true}} {
		p.Budget = budget
		d := first.After(p, errDown)
		if d.Action != retryqueue.Retry || d.Delay != 5*time.Second {
			t.Fatalf("%s: After() = %+v, want Retry in 5s", name, d)
		}
		for _, late := range []time.Duration{0, ms, time.Second} {
			m := retryqueue.Delivery{Number: 2, Stored: now, Now: first.Now.Add(d.Delay + late)}
			if d, run := m.Before(p); !run {
				t.Errorf("%s, %v late: %v", name, late, d.Err)
			}
			if d := m.After(p, errDown); d.Action != retryqueue.Dead || d.Err.Reason != retry.ReasonMaxElapsed || d.Err.Last() != errDown {
				t.Errorf("%s, %v late: After() = %+v, want it dead, with its error", name, late, d)
			}
		}
	}
}

// Who reads no action acknowledges nothing.
func TestZeroActionIsUndecided(t *testing.T) {
	if d, _ := (retryqueue.Delivery{}).Before(retry.Policy{}); d.Action != retryqueue.Undecided || (retryqueue.Decision{}).Action != retryqueue.Undecided {
		t.Errorf("the zero Action is %v", d.Action)
	}
}

func TestNowIsTheSystemsByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := retryqueue.Delivery{Number: 2, Stored: time.Now()}
		p := retry.Policy{MaxElapsed: time.Minute, Clock: clockx.NewVirtual(now)}
		time.Sleep(time.Hour)
		if d, run := m.Before(p); run || d.Err.Elapsed != time.Hour {
			t.Errorf("Before() = %+v, want a message that is an hour old", d)
		}
		if d := m.After(p, errDown); d.Action != retryqueue.Dead || d.Err.Elapsed != time.Hour {
			t.Errorf("After() = %+v, want a message that is an hour old", d)
		}
	})
}

func TestJudgedTakesTheCallersWord(t *testing.T) {
	m := retryqueue.Delivery{Number: 1, Stored: now, Now: now}
	p := retry.Policy{
		Classify: func(error) retry.Class { panic("called") }, NonIdempotent: true,
		Backoff: retry.Constant(time.Second), Rand: func() float64 { return 0 },
	}
	for name, tt := range map[string]struct {
		v      retry.Verdict
		action retryqueue.Action
		delay  time.Duration
		reason retry.Reason
	}{
		"success":       {retry.Verdict{}, retryqueue.Ack, 0, retry.ReasonNone},
		"undone":        {retry.Verdict{Err: errDown, Class: retry.Throttled, Hint: time.Minute, Undone: true}, retryqueue.Retry, 61 * time.Second, retry.ReasonNone},
		"not proven":    {retry.Verdict{Err: errDown, Class: retry.Throttled, Hint: time.Minute}, retryqueue.Dead, 0, retry.ReasonNotIdempotent},
		"ended":         {retry.Verdict{Err: errDown, Undone: true, End: retry.ReasonRetryAfter}, retryqueue.Dead, 0, retry.ReasonRetryAfter},
		"refused":       {retry.Verdict{Err: errDown, Class: retry.Permanent, Undone: true, Refused: true}, retryqueue.Retry, 2 * time.Second, retry.ReasonNone},
		"an answer":     {retry.Verdict{Err: errDown, Class: retry.Permanent, Answered: true, Marked: true}, retryqueue.Ack, 0, retry.ReasonNone},
		"a typo":        {retry.Verdict{Err: errDown, Class: retry.Permanent, Answered: true}, retryqueue.Dead, 0, retry.ReasonPermanent},
		"without class": {retry.Verdict{Err: errDown, Undone: true}, retryqueue.Retry, time.Second, retry.ReasonNone},
	} {
		d := retryqueue.Judged(m, p, tt.v)
		reason := retry.ReasonNone
		if d.Err != nil {
			reason = d.Err.Reason
		}
		if d.Action != tt.action || d.Delay != tt.delay || reason != tt.reason {
			t.Errorf("%s: Judged() = %+v, want %v in %v, %v", name, d, tt.action, tt.delay, tt.reason)
		}
	}
}

func TestActionString(t *testing.T) {
	for a, want := range map[retryqueue.Action]string{retryqueue.Undecided: "undecided", retryqueue.Ack: "ack", retryqueue.Retry: "retry", retryqueue.Dead: "dead", retryqueue.Dead + 1: "unknown", 255: "unknown"} {
		if a.String() != want {
			t.Errorf("Action(%d) = %q, want %q", uint8(a), a.String(), want)
		}
	}
}

// A queue of one message, on the harness's clock: no server, no waiting.
func TestHarnessDrivesAfter(t *testing.T) {
	h := retrytest.New(t, retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: 200 * ms, Jitter: retry.NoJitter}})
	handle := retrytest.Script(h,
		retrytest.Fail[int](errDown),
		retrytest.Fail[int](retry.After(errDown, time.Second)).Taking(30*ms),
		retrytest.Fail[int](errDown),
		retrytest.Fail[int](errDown))
	first := h.Clock.Now()
	var at []time.Duration
	for delivered := 1; ; delivered++ {
		at = append(at, h.Clock.Now().Sub(first))
		if _, run := (retryqueue.Delivery{Number: delivered, Stored: first, Now: h.Clock.Now()}).Before(h.Policy); !run {
			t.Fatalf("delivery %d was refused", delivered)
		}
		_, err := handle(context.Background())
		d := (retryqueue.Delivery{Number: delivered, Stored: first, Now: h.Clock.Now()}).After(h.Policy, err)
		if d.Action == retryqueue.Dead {
			if d.Err.Reason != retry.ReasonMaxAttempts || d.Err.Attempts != 4 {
				t.Errorf("dead: %v, want max_attempts after 4", d.Err)
			}
			break
		}
		h.Clock.Advance(d.Delay)
	}
	if want := fmt.Sprint([]time.Duration{0, 200 * ms, 1630 * ms, 2430 * ms}); fmt.Sprint(at) != want {
		t.Errorf("delivered at %v, want %v", at, want)
	}
}

func FuzzAfter(f *testing.F) {
	f.Add(1, int64(0), int64(0), uint8(2), 3, int64(0), false, false, uint64(0), int64(0), int64(time.Second), 2., .5)
	f.Add(math.MaxInt, int64(math.MinInt64), int64(math.MaxInt64), uint8(3), -1, int64(1), true, true, uint64(7), int64(math.MaxInt64), int64(math.MaxInt64), math.Inf(1), math.NaN())
	f.Fuzz(func(t *testing.T, delivered int, first, at int64, class uint8, limit int, elapsed int64, nonIdempotent, refuse bool, success uint64, hint, base int64, factor, random float64) {
		budget := &ledger{refuse: refuse}
		p := retry.Policy{
			MaxAttempts: limit, MaxElapsed: time.Duration(elapsed), NonIdempotent: nonIdempotent, Classify: byItself, MaxRetryAfter: math.MaxInt64,
			Backoff: retry.Exponential{Base: time.Duration(base), Max: math.MaxInt64, Factor: factor},
			Rand:    func() float64 { return random }, Budget: budget,
		}
		var err error
		if success%3 > 0 {
			err = judged{retry.Class(class), time.Duration(hint)}
		}
		firstAt, nowAt := time.Unix(first, first), time.Unix(at, 0)
		d := (retryqueue.Delivery{Number: delivered, Stored: firstAt, Now: nowAt}).After(p, err)
		if d.Delay < 0 || d.Delay > 0 && d.Action != retryqueue.Retry {
			t.Errorf("%v in %v", d.Action, d.Delay)
		}
		if (d.Action == retryqueue.Ack) != (err == nil) || d.Action == retryqueue.Dead && d.Err == nil || d.Action > retryqueue.Dead {
			t.Errorf("After(%v) = %+v", err, d)
		}
		if d.Action == retryqueue.Retry && (d.Err != nil) != refuse {
			t.Errorf("After() = %+v, and the budget refused: %v", d, refuse)
		}
		if d.Action == retryqueue.Retry && d.Delay < time.Duration(hint) {
			t.Errorf("Delay = %v, sooner than the server's %v", d.Delay, time.Duration(hint))
		}
		if budget.ended != 1 {
			t.Errorf("the budget saw %+v", *budget)
		}
		if again := nowAt.Add(d.Delay); d.Action == retryqueue.Retry && delivered < math.MaxInt && !again.Before(nowAt) {
			next := retryqueue.Delivery{Number: max(delivered, 1) + 1, Stored: firstAt, Now: again}
			for _, late := range []time.Duration{0, ms, time.Second} {
				next.Now = again.Add(late)
				if d, run := next.Before(p); !run {
					t.Errorf("After() granted what Before refuses %v later than planned: %v", late, d.Err)
				}
			}
		}
		before, run := (retryqueue.Delivery{Number: delivered, Stored: firstAt, Now: nowAt}).Before(p)
		if run != (before.Err == nil) || run && before != (retryqueue.Decision{}) || delivered <= 1 && !run {
			t.Errorf("Before() = %+v, %v", before, run)
		}
		if !run && before.Err.Reason == retry.ReasonMaxAttempts {
			// So the delivery before was the last, and After said so.
			if last := (retryqueue.Delivery{Number: delivered - 1, Stored: firstAt, Now: nowAt}).After(p, errDown); last.Action != retryqueue.Dead {
				t.Errorf("delivery %d was to follow, and is refused: %+v", delivered, last)
			}
		}
	})
}
