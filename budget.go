package retry

// May call: none of its neighbours.

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/readings"
	"github.com/goretry/retry/internal/tokens"
)

// Budget limits the retries of all the runs that share it. First attempts are never refused. Share
// one budget among all calls to the same part of a system, such as a service: a budget made for
// each call limits nothing, and among parts that fail alone those that are well would earn retries
// for those that are not. [PerKey] has one for each. Implementations must be safe for concurrent
// use.
//
// A run calls Withdraw before each retry, as rule 6 of the package documentation says, and End
// once, even if op panics. It calls neither if the caller's context has ended when the run begins,
// or ends in the pause of [Supervise]. A retry that was granted may not be made: a guard refuses
// it, or the run is canceled in the wait before it. Outcome.Sent says so. Package hedge calls the
// same methods for the hedges of a call, with Hedge set.
//
// A Budget may also have a method Price(Withdrawal) (price, left float64): how many tokens that
// costs now, and how many there are. It changes nothing. [Error] and package retrydebug say both.
type Budget interface {
	// Withdraw reports whether a retry may follow, and if so takes it from the budget.
	Withdraw(Withdrawal) bool

	// End says that a run is over.
	End(Outcome)
}

// Withdrawal is what a [Budget] gets before a retry.
type Withdrawal struct {
	Name  string       // the policy's
	Class Class        // of the error that the retry follows
	Retry int          // 1 for the first retry that the run asks for, then one more than were granted
	Hedge bool         // it is no retry but a hedge, and no attempt has failed yet
	Clock clockx.Clock // the policy's, never nil: a budget that needs the time reads it here
}

// Outcome is what a [Budget] gets when a run is over.
type Outcome struct {
	Name    string       // the policy's
	Retried Class        // of the error that the last granted retry followed; Unknown if none was granted
	Retries int          // how many were granted
	Sent    int          // how many of them were made: all, or all but the last; of hedges as many as were started
	Hedge   bool         // the run was the hedges of one call; to the policy's budget each hedge is a run
	OK      bool         // op succeeded, or failed with an Answer; of a hedge to the policy's budget: as the first to do so
	Clock   clockx.Clock // the policy's, never nil
}

// unsent returns how many granted retries were not made.
func (o *Outcome) unsent() int { return max(o.Retries-max(o.Sent, 0), 0) }

// pricer is a Budget that says what a retry costs.
type pricer interface {
	Price(Withdrawal) (price, left float64)
}

// shortage is the Cause of a run that its budget has ended.
type shortage struct {
	class       Class // of the error that a retry was to follow
	price, left float64
}

// shortageOf returns what w costs in a budget that has refused it, or nil if the budget does not
// know or has enough by now: other runs earn meanwhile, and a type around the budget may have
// refused for a reason of its own.
func shortageOf(b Budget, w Withdrawal) error {
	p, ok := b.(pricer)
	if !ok {
		return nil
	}
	price, left := p.Price(w)
	if missing := price - max(left, 0); !(missing > 0) || math.IsInf(missing, 1) {
		return nil
	}
	return &shortage{w.Class, price, left}
}

func (s *shortage) Error() string {
	after, are := "", "are"
	switch s.class {
	case TimedOut:
		after = " after a timeout"
	case Throttled:
		after = " after a throttled error"
	}
	price, left := tokens.Price(s.price), tokens.Left(s.left)
	if left == "1" {
		are = "is"
	}
	return "a retry" + after + " costs " + price + " " + tokens.Unit(price) + ", " + left + " " + are + " left"
}

// EarnedBudget lets calls earn their retries. Use it unless you know better, one for each part of
// a system that can fail alone.
//
// A new one has nine tokens. A retry costs two tokens, and ten after a [TimedOut] error. After
// TimedOut and [Throttled] errors the price doubles with each run that fails after such a retry,
// up to sixteen times, and halves again with each one that succeeds. A run that succeeds earns a
// tenth of a token without a retry, and after retries two for each of them and two more, or four
// if the last one followed a Throttled error, twenty if a TimedOut one. A hedge costs two tokens,
// and gets them back if it is the first to succeed. A retry that was not made, since a guard
// refused it or the run was canceled, gets back what it would cost now.
//
// No token comes with time. Tokens beyond what a retry after a TimedOut error costs decay by the
// factor e in 8 s. Of a pause between calls the first 0.3 s count, and what exceeds a minute.
// There are never more than a thousand and ten tokens. So a process that has spent its tokens
// makes no retry until twenty of its calls have succeeded, and a new process none after a timeout
// until ten have, however many such processes there are.
//
// The zero value is ready. It measures time on the clocks of the policies that share it. If one is
// behind another, or is set back, no retry is refused because of that. A nil *EarnedBudget grants
// everything. Do not copy an EarnedBudget after the first use.
type EarnedBudget struct {
	word atomic.Uint64 // a purse
}

// purse is what an EarnedBudget holds, in one word. Its upper half is the number of
// tokens beyond those of a new one, in millionths: negative if there are fewer. Below
// them is how often the prices after an overload have doubled, in three bits. The rest is
// the tick at which the tokens were counted, which matters if some decay.
type purse uint64

const (
	token       = 1_000_000 // a tenth of it is exact, and decay is hardly rounded
	firstTokens = 9 * token
	tenTokens   = 10 * token
	mostTokens  = tenTokens + 1000*token
	price       = 2 * token // of a retry; after a timeout ten
	doublings   = 4         // after overloads, at most

	tick        = time.Second / 16 // a purse decays once in this time, and a full one does not change in between
	ticks       = 1 << 29          // after so many, which is a year, they begin anew
	fadingTime  = 8 * time.Second
	fadingPause = 5 // ticks that count of a pause, 0.3 s
	minute      = uint32(time.Minute / tick)
	patience    = minute // a clock that is behind by at most this may catch up
)

func newPurse(tokens int64, doubled, at uint32) purse {
	return purse(uint64(uint32(tokens-firstTokens))<<32 | uint64(doubled*ticks|at%ticks))
}

func (p purse) tokens() int64   { return int64(int32(p>>32)) + firstTokens }
func (p purse) doubled() uint32 { return uint32(p) / ticks }
func (p purse) at() uint32      { return uint32(p) % ticks }

// faded returns p with the decay up to a tick.
func (p purse) faded(now uint32) purse {
	tokens, kept := p.tokens(), p.costOf(TimedOut)
	if above := tokens - kept; above > 0 {
		if ahead := (p.at() - now) % ticks; ahead <= patience {
			return p // the clock was set back, or another goroutine has read it later
		}
		age := fading((now - p.at()) % ticks)
		tokens = kept + int64(float64(above)*math.Exp(-float64(age)*tick.Seconds()/fadingTime.Seconds()))
	}
	return newPurse(tokens, p.doubled(), now)
}

// fading returns how many ticks count of a pause. With all of them a process that makes few
// calls would have lost what a retry has earned before the next call fails. Beyond a minute the
// successes before it say nothing about the server.
func fading(pause uint32) uint32 { return min(pause, fadingPause) + max(pause, minute) - minute }

// costOf returns what a retry after an error of class c costs.
func (p purse) costOf(c Class) int64 {
	switch c {
	case TimedOut:
		return tenTokens << p.doubled()
	case Throttled:
		return price << p.doubled()
	}
	return price
}

// overload reports whether an error of class c may mean that the server is overloaded, so
// that retries make it worse.
func overload(c Class) bool { return c == TimedOut || c == Throttled }

// less returns p without n tokens. It reports false if there are not as many.
func (p purse) less(n int64) (purse, bool) {
	return newPurse(p.tokens()-n, p.doubled(), p.at()), p.tokens() >= n
}

// after returns p after a run with such an outcome.
func (p purse) after(o Outcome) purse {
	earned, doubled := int64(min(o.unsent(), 1<<20))*p.costOf(o.Retried), p.doubled()
	switch {
	case o.OK && o.Sent <= 0:
		earned += token / 10
	case o.OK && o.Hedge:
		earned += price
	case o.OK && overload(o.Retried):
		earned += 2 * newPurse(0, 0, 0).costOf(o.Retried)
		doubled = max(doubled, 1) - 1
	case o.OK:
		earned += (int64(o.Sent) + 1) * price
	case overload(o.Retried) && o.Sent > 0:
		doubled = min(doubled+1, doublings)
	}
	return newPurse(min(p.tokens()+earned, mostTokens), doubled, p.at())
}

// Withdraw takes the cost of a retry, if there are enough tokens.
func (b *EarnedBudget) Withdraw(w Withdrawal) bool {
	if b == nil {
		return true
	}
	for now := tickOf(w.Clock); ; {
		word := b.word.Load()
		p := purse(word).faded(now)
		left, ok := p.less(p.costOf(w.Class))
		if !ok || b.word.CompareAndSwap(word, uint64(left)) {
			return ok
		}
	}
}

// End adds what a success has earned, and changes the prices after overloads.
func (b *EarnedBudget) End(o Outcome) {
	if b == nil || !o.OK && !overload(o.Retried) && o.unsent() == 0 {
		return
	}
	for now := tickOf(o.Clock); ; {
		word := b.word.Load()
		p := purse(word).faded(now).after(o)
		if uint64(p) == word || b.word.CompareAndSwap(word, uint64(p)) {
			return // mostly it is full: then nobody writes, and cores do not wait for each other
		}
	}
}

// Price returns what a retry costs now, and the number of tokens.
func (b *EarnedBudget) Price(w Withdrawal) (price, left float64) {
	if b == nil {
		return 0, math.Inf(1)
	}
	p := purse(b.word.Load()).faded(tickOf(w.Clock))
	return float64(p.costOf(w.Class)) / token, float64(p.tokens()) / token
}

// Balance returns the number of tokens divided by ten, at most 1.
func (b *EarnedBudget) Balance() float64 {
	if b == nil {
		return 1
	}
	return float64(min(purse(b.word.Load()).tokens(), tenTokens)) / tenTokens
}

// tickOf returns the time on a clock, in ticks.
func tickOf(c clockx.Clock) uint32 { return uint32(readings.Of(c) / tick) }
