package retry_test

import (
	"context"
	"maps"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

func TestBudgetsGetThePolicysClock(t *testing.T) {
	doors := maps.Clone(doors)
	doors["Loop"] = func(ctx context.Context, p retry.Policy, op func(context.Context) error) error {
		loop := p.Start(epoch)
		for ok := true; ok; {
			_, ok = loop.Next(epoch, op(ctx))
		}
		return loop.Err()
	}
	v := clockx.NewVirtual(epoch)
	for given, want := range map[clockx.Clock]clockx.Clock{nil: clockx.System(), clockx.System(): clockx.System(), v: v} {
		for door, run := range doors {
			budget := &loggedBudget{log: func(string, ...any) {}}
			_ = run(t.Context(), retry.Policy{Clock: given, Budget: budget, Backoff: retry.Constant(0), MaxAttempts: 2}, func(context.Context) error { return errDown })
			if len(budget.withdrawals) != 1 || budget.withdrawals[0].Clock != want || budget.outcome.Clock != want {
				t.Errorf("%s on %T: Withdraw got %+v, and End %+v, want %T in both", door, given, budget.withdrawals, budget.outcome, want)
			}
		}
	}
}

// Also on the system clock and without hooks, where a run is cheapest.
func TestRunTellsTheBudgetAlone(t *testing.T) {
	for failures, want := range map[int]countingBudget{
		0: {ended: 1, ok: true},
		2: {asked: 2, ended: 1, ok: true, retried: retry.Transient},
		3: {asked: 2, ended: 1, retried: retry.Transient},
	} {
		var budget countingBudget
		op, _ := failing(failures, errDown)
		_, _ = retry.Do(t.Context(), retry.Policy{Budget: &budget, Backoff: retry.Constant(0)}, op)
		if budget != want {
			t.Errorf("after %d failures the budget of Do saw %+v, want %+v", failures, budget, want)
		}
		budget = countingBudget{}
		op, _ = failing(failures, errDown)
		_ = retry.Run(t.Context(), retry.Policy{Budget: &budget, Backoff: retry.Constant(0)}, func(ctx context.Context) error {
			_, err := op(ctx)
			return err
		})
		if budget != want {
			t.Errorf("after %d failures the budget of Run saw %+v, want %+v", failures, budget, want)
		}
	}
}
