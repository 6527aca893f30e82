package storm

import "github.com/goretry/retry"

// waiver is the budget of one call whose pace limits the retries that follow a 429: those take
// nothing from it. A run knows that by Pass.Paces, and a Loop, which has no guards, does not.
type waiver struct {
	retry.Budget
	waives bool // the retry that is asked for
	waived int
	paid   retry.Class // the class that the last other retry followed
	last   bool        // the last retry was waived
}

// waiving returns p with a waiver of its own, nil if p has no budget.
func waiving(p retry.Policy) (retry.Policy, *waiver) {
	if p.Budget == nil {
		return p, nil
	}
	b := &waiver{Budget: p.Budget}
	p.Budget = b
	return p, b
}

// waive says whether the pace limits the retry that is asked for next.
func (b *waiver) waive(waives bool) {
	if b != nil {
		b.waives = waives
	}
}

// Withdraw grants a retry that the pace limits.
func (b *waiver) Withdraw(w retry.Withdrawal) bool {
	switch {
	case b.waives:
		b.waived++
	case b.Budget.Withdraw(w):
		b.paid = w.Class
	default:
		return false
	}
	b.last = b.waives
	return true
}

// End leaves out what was waived.
func (b *waiver) End(o retry.Outcome) {
	unsent := o.Retries - o.Sent
	if b.last {
		unsent = 0
	}
	o.Retries -= b.waived
	o.Sent, o.Retried = o.Retries-unsent, b.paid
	b.Budget.End(o)
}
