package failover

import (
	"errors"
	"slices"

	"github.com/goretry/retry"
)

// purse is the budget of a run: the caller's, which is not asked for the first switch if nothing was
// done. So one dead target costs no calls, and what may have run is paid for.
type purse targets

// wallet is what a purse has to remember.
type wallet struct {
	switched bool        // the run has switched, or has tried to
	gift     bool        // the latest retry was granted for nothing, and is not made yet
	paid     int         // retries
	class    retry.Class // of the error that the latest of them followed
}

func (b *purse) Withdraw(w retry.Withdrawal) bool {
	first := !b.switched && slices.ContainsFunc(b.places, func(t place) bool { return t.tried }) // else the round is over
	b.switched = b.switched || first
	b.gift = first && (w.Class == retry.Unprocessed || w.Class == retry.Throttled)
	return b.gift || b.pay(w)
}

// settle pays for the round that comes instead of a switch which was granted for nothing.
func (r *targets) settle(e retry.Entry) error {
	if r.gift && !(*purse)(r).pay(retry.Withdrawal{Name: e.Name, Class: e.Class, Clock: e.Clock}) {
		return retry.Stop(errors.New("failover: the budget grants no other round"))
	}
	r.gift = false
	return nil
}

// pay asks the caller's budget, which does not know of the gift.
func (b *purse) pay(w retry.Withdrawal) bool {
	w.Retry = b.paid + 1
	if !b.policy.Budget.Withdraw(w) {
		return false
	}
	b.paid, b.class = w.Retry, w.Class
	return true
}

// End counts what was paid.
func (b *purse) End(o retry.Outcome) {
	unsent := o.Retries - o.Sent // the latest
	if b.gift {
		unsent = 0
	}
	o.Retries, o.Sent, o.Retried = b.paid, b.paid-unsent, b.class
	b.policy.Budget.End(o)
}

// Price is that of the caller's budget, and is asked for after a refusal, when there is no gift. One that does not
// say it has enough for nothing.
func (b *purse) Price(w retry.Withdrawal) (price, left float64) {
	if p, ok := b.policy.Budget.(interface {
		Price(retry.Withdrawal) (float64, float64)
	}); ok {
		return p.Price(w)
	}
	return 0, 0
}
