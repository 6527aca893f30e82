package storm

import (
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
)

// Budgets compares budgets over Cells, or over every so many of them.
type Budgets struct {
	Policies []retry.Policy // the first makes no retries
	Every    int            // 0: 1
	Seeds    int            // of a contested cell; others have one
	Seed     uint64
	Met      func() // is called after each cell; may be nil
}

// DocumentedBudgets is the experiment of bench/EXPERIMENTS.md: EarnedBudget beside other budgets, and
// beside its own law with one thing changed.
var DocumentedBudgets = Budgets{Policies: comparedBudgets(), Seeds: 5, Seed: 1}

func comparedBudgets() []retry.Policy {
	all := []retry.Policy{{Name: "no retries", MaxAttempts: 1}}
	add := func(name string, b retry.Budget) {
		all = append(all, retry.Policy{Name: name, MaxAttempts: 4, Backoff: retry.Exponential{Base: 100 * time.Millisecond, Max: 10 * time.Second}, Budget: b})
	}
	add("`budget.Token`", &budget.Token{})
	add("`budget.Ratio`", &budget.Ratio{})
	add("`EarnedBudget`", &retry.EarnedBudget{})
	for _, v := range []struct {
		name   string
		change func(*Law)
	}{
		{"starts with 10 tokens", func(l *Law) { l.Start = 10 }},
		{"starts with none", func(l *Law) { l.Start = 0 }},
		{"other retries cost 1", func(l *Law) { l.Price = 1 }},
		{"no price doubles", func(l *Law) { l.Doubling = 0 }},
		{"the price after throttling does not double", func(l *Law) { l.Throttled = false }},
		{"gives back the last retry only", func(l *Law) { l.All = false }},
		{"fades in 5 s, pauses count", func(l *Law) { l.Fading, l.Pause = 0, 0 }},
	} {
		l := Earned()
		v.change(&l)
		add(v.name, &l)
	}
	return all
}

// BudgetRow is how one policy fares in some cells.
type BudgetRow struct {
	Policy string       `json:"policy"`
	Kind   string       `json:"kind,omitempty"` // of the cells; "": of all
	Cells  int          `json:"cells"`
	Lost   float64      `json:"lost"`  // the share of the calls, in the mean cell
	Down   int          `json:"down"`  // cells in whose last quarter most calls fail, though not without retries
	Worse  int          `json:"worse"` // cells in which more than a hundredth more of the calls are lost than without retries
	Kinds  []*BudgetRow `json:"kinds,omitempty"`
}

// add counts what became of a cell.
func (row *BudgetRow) add(f fate) {
	row.Cells++
	row.Lost += (f.lost - row.Lost) / float64(row.Cells)
	if f.down {
		row.Down++
	}
	if f.worse {
		row.Worse++
	}
}

// String returns the row's numbers in short: lost, down and worse.
func (row *BudgetRow) String() string {
	return fmt.Sprintf("%.1f / %d / %d", 100*row.Lost, row.Down, row.Worse)
}

// kind returns the row of the cells of a kind.
func (row *BudgetRow) kind(name string) *BudgetRow {
	for _, k := range row.Kinds {
		if k.Kind == name {
			return k
		}
	}
	row.Kinds = append(row.Kinds, &BudgetRow{Policy: row.Policy, Kind: name})
	return row.Kinds[len(row.Kinds)-1]
}

// fate is what became of the calls of one policy in a cell.
type fate struct {
	lost        float64
	down, worse bool
}

// Run returns a row for each policy, and nil if ctx ends before.
func (x Budgets) Run(ctx context.Context) []*BudgetRow {
	rows := make([]*BudgetRow, len(x.Policies))
	for i, p := range x.Policies {
		rows[i] = &BudgetRow{Policy: p.Name}
	}
	for i, c := range Cells() {
		if i%max(x.Every, 1) != 0 {
			continue
		}
		c.Seed = x.Seed
		fates, contested := x.meet(ctx, c, 1)
		if contested && x.Seeds > 1 {
			fates, _ = x.meet(ctx, c, x.Seeds)
		}
		if ctx.Err() != nil {
			return nil
		}
		if x.Met != nil {
			x.Met()
		}
		for j, row := range rows {
			row.add(fates[j])
			row.kind(c.Kind).add(fates[j])
		}
	}
	return rows
}

// meet lets all policies meet a cell. It is contested if a rule by which
// calls earn retries is down or worse in it.
func (x Budgets) meet(ctx context.Context, c Cell, seeds int) (fates []fate, contested bool) {
	for i, runs := range c.Trials(ctx, x.Policies, seeds) {
		if ctx.Err() != nil {
			return nil, false
		}
		r := Merge(runs)
		last := r.Sum(c.Duration*3/4, c.Duration)
		f := fate{lost: 1 - r.Success(), down: 2*last.Good < last.Asked}
		if i > 0 {
			f.down, f.worse = f.down && !fates[0].down, f.lost > fates[0].lost+.01
		} else {
			f.down = false
		}
		switch x.Policies[i].Budget.(type) {
		case *Law, *retry.EarnedBudget:
			contested = contested || f.down || f.worse
		}
		fates = append(fates, f)
	}
	return fates, contested
}
