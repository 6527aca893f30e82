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
	given bool        // a retry was granted for nothing
	last  bool        // that is the latest that was granted
	open  bool        // and it is not made yet
	owed  bool        // it has become a round, which is to be paid
	moved bool        // the run has switched, or has tried to
	class retry.Class // of the error that the latest paid retry followed
}

func (b *purse) Withdraw(w retry.Withdrawal) bool {
	p := &b.purse
	if b.atOnce && !p.moved && (w.Class == retry.Unprocessed || w.Class == retry.Throttled) {
		p.moved, p.given, p.last, p.open = true, true, true, true
		return true
	}
	p.moved = p.moved || b.atOnce
	return b.pay(w)
}

func (b *purse) pay(w retry.Withdrawal) bool {
	if b.purse.given {
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
	if b.purse.given {
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

// made notes that the attempt is made for which a retry was granted.
func (w *wallet) made() { w.open = false }

// noSwitch notes that a round is over before the attempt is made.
func (w *wallet) noSwitch() { w.owed = w.owed || w.open }

// settle pays for the round.
func (w *wallet) settle(b *purse, e retry.Entry) error {
	if !w.owed {
		return nil
	}
	w.given, w.owed, w.open = false, false, false
	if !b.pay(retry.Withdrawal{Name: e.Name, Class: e.Class, Retry: e.Number - 1, Clock: e.Clock}) {
		w.given = true
		return errShort
	}
	return nil
}

var errShort = retry.Stop(errors.New("failover: the budget grants no other round"))
