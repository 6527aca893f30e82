package failover

import (
	"errors"

	"github.com/goretry/retry"
)

// purse is the budget of a run: the caller's, which is not asked for the first switch if nothing was
// done. So one dead target costs no calls, and what may have run is paid for.
type purse targets

// wallet is what a purse has to remember.
type wallet struct {
	gift  gift
	last  bool        // it is the latest retry that was granted
	moved bool        // the run has switched, or has tried to
	class retry.Class // of the error that the latest paid retry followed
}

// gift is what has become of the retry that was granted for nothing.
type gift uint8

const (
	none gift = iota
	open      // it is not made yet
	made      // elsewhere
	owed      // the round was over before that, so it is to be paid
)

func (b *purse) Withdraw(w retry.Withdrawal) bool {
	p := &b.purse
	if b.atOnce && !p.moved && (w.Class == retry.Unprocessed || w.Class == retry.Throttled) {
		p.gift, p.last, p.moved = open, true, true
		return true
	}
	p.moved = p.moved || b.atOnce
	return b.pay(w)
}

func (b *purse) pay(w retry.Withdrawal) bool {
	if b.purse.gift != none {
		w.Retry--
	}
	if !b.policy.Budget.Withdraw(w) {
		return false
	}
	b.purse.last, b.purse.class = false, w.Class
	return true
}

// End counts what was paid.
func (b *purse) End(o retry.Outcome) {
	unsent := o.Retries - o.Sent
	if b.purse.last {
		unsent = 0
	}
	if b.purse.gift != none {
		o.Retries--
	}
	o.Sent, o.Retried = o.Retries-unsent, b.purse.class
	b.policy.Budget.End(o)
}

// Price is that of the caller's budget.
func (b *purse) Price(w retry.Withdrawal) (price, left float64) {
	p, ok := b.policy.Budget.(interface {
		Price(retry.Withdrawal) (price, left float64)
	})
	if !ok {
		return 0, 0 // it does not know
	}
	return p.Price(w)
}

// used notes that the attempt is made for which a retry was granted.
func (w *wallet) used() {
	if w.gift == open {
		w.gift = made
	}
}

// noSwitch notes that a round is over.
func (w *wallet) noSwitch() {
	if w.gift == open {
		w.gift = owed
	}
}

// settle pays for the round.
func (b *purse) settle(e retry.Entry) error {
	if b.purse.gift != owed {
		return nil
	}
	b.purse.gift = none
	if !b.pay(retry.Withdrawal{Name: e.Name, Class: e.Class, Retry: e.Number - 1, Clock: e.Clock}) {
		b.purse.gift = owed
		return errShort
	}
	return nil
}

var errShort = retry.Stop(errors.New("failover: the budget grants no other round"))
