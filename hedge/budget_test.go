package hedge_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/hedging"
)

// ledger is a budget that writes down what it is told, and refuses what it is told
// to.
type ledger struct {
	refuse []bool // the first Withdraw, the second, …
	start  time.Time

	withdrawn int // Retry of the latest Withdraw

	mu  sync.Mutex
	got []string
}

func (l *ledger) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, fmt.Sprintf(format, args...)+" "+time.Since(l.start).String())
}

func (l *ledger) End(o retry.Outcome) {
	l.check(o.Name, o.Hedge)
	l.checkClock(o.Clock)
	l.note("end(%v,%v)", o.Retried, o.OK)
	if o.Sent != o.Retries {
		l.note("but %d of %d sent", o.Sent, o.Retries)
	}
	if granted := o.Retried != retry.Unknown; granted != (o.Retries > 0) || o.Retries > 1 && l.withdrawn != o.Retries {
		l.note("but %d retries", o.Retries)
	}
}

func (l *ledger) check(name string, hedge bool) {
	if name != "fetch" || !hedge {
		l.note("name %q, hedge: %v", name, hedge)
	}
}

func (l *ledger) checkClock(clock clockx.Clock) {
	if clock != clockx.System() {
		l.note("clock %T", clock)
	}
}

func (l *ledger) Withdraw(w retry.Withdrawal) bool {
	l.check(w.Name, w.Hedge)
	l.checkClock(w.Clock)
	l.note("withdraw(%v,%d)", w.Class, w.Retry)
	l.withdrawn = w.Retry
	if len(l.refuse) == 0 {
		return true
	}
	refused := l.refuse[0]
	l.refuse = l.refuse[1:]
	return !refused
}

func TestWhatBudgetsAreTold(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		steps                []step
		most                 int
		deadline             time.Duration
		refuse, policyRefuse []bool
		refused              error
		own, policy          []string
	}{
		{name: "no hedge", steps: []step{ok(10 * ms)},
			own: []string{"end(unknown,true) 10ms"}},
		{name: "no hedge, a failure", steps: []step{fails(10*ms, errHiccup)},
			own: []string{"end(unknown,false) 10ms"}},
		{name: "no hedge, not yet", steps: []step{fails(10*ms, retry.ErrRejected)},
			own: []string{"end(unknown,true) 10ms"}},
		{name: "the deadline comes first", steps: []step{ok(10 * ms)}, deadline: 50 * ms,
			own: []string{"end(unknown,true) 10ms"}},
		{name: "a hedge wins", steps: []step{ok(time.Second), ok(50 * ms)},
			own:    []string{"withdraw(transient,1) 100ms", "end(transient,false) 150ms"},
			policy: []string{"withdraw(transient,1) 100ms", "end(transient,true) 150ms"}},
		{name: "the hedge comes second", steps: []step{ok(120 * ms), ok(50 * ms)},
			own:    []string{"withdraw(transient,1) 100ms", "end(transient,false) 120ms"},
			policy: []string{"withdraw(transient,1) 100ms", "end(transient,false) 120ms"}},
		{name: "a hedge fails early", steps: []step{ok(time.Second), fails(50*ms, errHiccup)}, refused: hedging.RefusedFailed,
			own:    []string{"withdraw(transient,1) 100ms", "end(transient,false) 1s"},
			policy: []string{"withdraw(transient,1) 100ms", "end(transient,false) 150ms"}},
		{name: "two hedges", most: 3, steps: []step{ok(time.Second), ok(time.Second), ok(50 * ms)},
			own: []string{"withdraw(transient,1) 100ms", "withdraw(transient,2) 200ms", "end(transient,false) 250ms"},
			policy: []string{"withdraw(transient,1) 100ms", "withdraw(transient,1) 200ms",
				"end(transient,true) 250ms", "end(transient,false) 250ms"}},
		{name: "refused", steps: []step{ok(150 * ms)}, refuse: []bool{true}, refused: hedging.RefusedBudget,
			own: []string{"withdraw(transient,1) 100ms", "end(unknown,true) 150ms"}},
		{name: "the policy's refuses", steps: []step{ok(150 * ms)}, policyRefuse: []bool{true}, refused: hedging.RefusedPolicyBudget,
			own:    []string{"withdraw(transient,1) 100ms", "end(transient,false) 150ms", "but 0 of 1 sent 150ms"},
			policy: []string{"withdraw(transient,1) 100ms", "end(unknown,false) 100ms"}},
		{name: "refused, then granted", most: 3, steps: []step{ok(time.Second), ok(50 * ms)}, refuse: []bool{true}, refused: hedging.RefusedBudget,
			own:    []string{"withdraw(transient,1) 100ms", "withdraw(transient,1) 200ms", "end(transient,false) 250ms"},
			policy: []string{"withdraw(transient,1) 200ms", "end(transient,true) 250ms"}},
		{name: "the policy's refuses, then grants", most: 3, steps: []step{ok(time.Second), ok(50 * ms)}, policyRefuse: []bool{true}, refused: hedging.RefusedPolicyBudget,
			own: []string{"withdraw(transient,1) 100ms", "withdraw(transient,2) 200ms", "end(transient,false) 250ms", "but 1 of 2 sent 250ms"},
			policy: []string{"withdraw(transient,1) 100ms", "end(unknown,false) 100ms",
				"withdraw(transient,1) 200ms", "end(transient,true) 250ms"}},
		{name: "two are refused, the first reason is told", most: 3, steps: []step{ok(250 * ms)}, refuse: []bool{false, true}, policyRefuse: []bool{true}, refused: hedging.RefusedPolicyBudget,
			own:    []string{"withdraw(transient,1) 100ms", "withdraw(transient,2) 200ms", "end(transient,false) 250ms", "but 0 of 1 sent 250ms"},
			policy: []string{"withdraw(transient,1) 100ms", "end(unknown,false) 100ms"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				own := &ledger{refuse: tt.refuse, start: time.Now()}
				policy := &ledger{refuse: tt.policyRefuse, start: time.Now()}
				h := after100ms()
				h.Budget, h.MaxInFlight = own, tt.most
				s := script{steps: tt.steps}
				_, _ = raced(retry.Policy{Name: "fetch", Budget: policy}, &h.Hedge, s.op, hedge.Value[int]{})(ctx)
				if !slices.Equal(own.got, tt.own) {
					t.Errorf("the hedge's budget was told\n%q, want\n%q", own.got, tt.own)
				}
				if !slices.Equal(policy.got, tt.policy) {
					t.Errorf("the policy's budget was told\n%q, want\n%q", policy.got, tt.policy)
				}
				if len(h.got) == 1 && h.got[0].Refused != tt.refused || len(h.got) == 0 && tt.refused != nil {
					t.Errorf("told %+v, want refused %q", h.got, tt.refused)
				}
			})
		})
	}
}

// slow makes calls whose hedge would win at once, until one is refused, and returns
// how many were hedged.
func slow(t *testing.T, op func(context.Context) (int, error), h *told) (hedged int) {
	for range 1000 {
		h.got = nil
		_, _ = op(t.Context())
		if h.got[0].Started == 1 {
			return hedged
		}
		hedged++
	}
	return hedged
}

// sleepy is an op that hangs for a second if it is told to, unless it is a hedge.
func sleepy(hang *bool) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		if *hang && hedge.Number(ctx) == 1 {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(time.Second):
			}
		}
		return 0, nil
	}
}

func TestTokenGrantsAHedgeForFourteenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := after100ms()
		h.Budget = &budget.Token{}
		hang := true
		op := raced(retry.Policy{}, &h.Hedge, sleepy(&hang), hedge.Value[int]{})
		if got := slow(t, op, h); got != 500/14 {
			t.Errorf("a full bucket grants %d hedges, want %d", got, 500/14)
		}
		// 10 tokens are left, and the call that was refused has earned one.
		for range 14 - 11 {
			hang = false
			_, _ = op(t.Context())
		}
		hang = true
		if got := slow(t, op, h); got != 1 {
			t.Errorf("%d hedges, want the one that was earned", got)
		}
		for range 13 - 1 {
			hang = false
			_, _ = op(t.Context())
		}
		hang = true
		if got := slow(t, op, h); got != 0 {
			t.Errorf("%d hedges after 13 calls, want none", got)
		}
	})
}

// An EarnedBudget begins with nine tokens. A hedge costs two, and twenty calls that were
// not hedged earn them.
func TestEarnedBudgetGrantsAHedgeForTwentyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := after100ms()
		h.Budget = &retry.EarnedBudget{}
		hang := true
		op := raced(retry.Policy{}, &h.Hedge, sleepy(&hang), hedge.Value[int]{})
		if got := slow(t, op, h); got != 4 {
			t.Errorf("a fresh budget grants %d hedges, want 4", got)
		}
		for _, tt := range []struct{ calls, want int }{{9, 1}, {18, 0}, {0, 1}, {19, 1}} {
			hang = false
			for range tt.calls { // beside the one that was refused, which has earned as much
				_, _ = op(t.Context())
			}
			hang = true
			if got := slow(t, op, h); got != tt.want {
				t.Errorf("%d hedges after %d calls, want %d", got, tt.calls, tt.want)
			}
		}
	})
}

// A hedge that wins gives the policy's budget its cost back. Otherwise hedges would take
// each token before there are enough for a retry after a timeout, which costs more.
func TestHedgesLeaveRetriesTheirTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 2, AttemptTimeout: 100 * ms, Backoff: retry.Constant(10 * ms), Budget: &retry.EarnedBudget{}}
		h := hedge.Hedge{Delay: 30 * ms}
		hangs := false // the first attempt of a call
		op := func(ctx context.Context) (int, error) {
			if hangs && hedge.Number(ctx) == 1 && retry.AttemptNumber(ctx) == 1 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			time.Sleep(5 * ms)
			return 0, nil
		}
		for i := range 600 {
			hangs = i > 200 && i%2 == 0
			if _, err := hedge.Do(t.Context(), p, &h, op); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
	})
}

// Five hundred calls in ten seconds allow 5 % of them: 25 hedges. What was hedged adds
// nothing.
func TestOwnBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := after100ms()
		h.Budget = nil
		hang := false
		op := raced(retry.Policy{}, &h.Hedge, sleepy(&hang), hedge.Value[int]{})
		for range 500 {
			_, _ = op(t.Context())
		}
		hang = true
		if got, want := slow(t, op, h), 25; got != want {
			t.Errorf("%d hedges, want %d", got, want)
		}
		if h.got[0].Refused != hedging.RefusedBudget {
			t.Errorf("refused %v, want budget", h.got[0].Refused)
		}
	})
}

// Each call of Do makes an op of its own.
func TestCallsOfOneHedgeShareItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := after100ms()
		h.Budget = nil
		hang := true
		op := sleepy(&hang)
		for i, want := range []int{2, 1, 1} {
			if _, err := hedge.Do(t.Context(), retry.Policy{}, &h.Hedge, op); err != nil || h.got[i].Started != want {
				t.Errorf("call %d: %d attempts, %v, want %d", i+1, h.got[i].Started, err, want)
			}
		}
	})
}

// A process with a call now and then gets its first hedge at once, and one more for
// each 20 calls that succeed without. Time alone brings none.
func TestOwnBudgetOfAQuietProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := after100ms()
		h.Budget = nil
		hang := true
		op := raced(retry.Policy{}, &h.Hedge, sleepy(&hang), hedge.Value[int]{})
		for i, tt := range []struct{ calls, want int }{{0, 1}, {0, 0}, {18, 1}, {18, 0}, {0, 1}} {
			hang = false
			for range tt.calls { // beside the one that was refused, which succeeds
				time.Sleep(time.Minute)
				_, _ = op(t.Context())
			}
			hang = true
			time.Sleep(time.Hour)
			if got := slow(t, op, h); got != tt.want {
				t.Errorf("step %d: %d hedges after %d calls, want %d", i, got, tt.calls, tt.want)
			}
		}
	})
}
