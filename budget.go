package retry

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/clockx"
)

// Budget limits the retries of all the runs that share it. First attempts are never
// refused. Share one budget among all calls to the same part of a system, such as a
// service: a budget made for each call limits nothing, and among parts that fail alone
// those that are well would earn retries for those that are not. [PerKey] has one for each.
// Implementations must be safe for concurrent use.
//
// A run calls Begin once, Withdraw before each retry, and End once, even if op panics.
// It does not call Withdraw before a retry that follows [ErrRejected]: the dependency
// has answered, so the next poll is no extra load. A retry that was granted is spent,
// even if the run is canceled in the wait before it.
//
// Package hedge calls the same methods for the hedges of a call, with Hedge set.
type Budget interface {
	// Begin says that a run starts.
	Begin(Opening)

	// Withdraw reports whether a retry may follow, and if so takes it from the budget. A
	// budget in which a run holds one place takes that place when Retry is 1.
	Withdraw(Withdrawal) bool

	// End says that a run is over.
	End(Outcome)
}

// Opening is what a [Budget] gets when a run starts.
type Opening struct {
	Name  string // the policy's
	Hedge bool   // the run is the hedges of one call
}

// Withdrawal is what a [Budget] gets before a retry.
type Withdrawal struct {
	Name  string        // the policy's
	Class Class         // of the error that the retry follows
	Retry int           // 1 for the first retry that the run asks for, then one more than were granted
	Hedge bool          // it is no retry but a hedge, and no attempt has failed yet
	Wait  time.Duration // before the retry
	Clock clockx.Clock  // the policy's, never nil: a budget that needs the time reads it here
}

// Outcome is what a [Budget] gets when a run is over.
type Outcome struct {
	Name    string       // the policy's
	Retried Class        // of the error that the last granted retry followed; Unknown if none was granted
	Retries int          // how many were granted
	Hedge   bool         // the run was the hedges of one call; to the policy's budget each hedge is a run
	OK      bool         // op succeeded, or failed with an Answer; of a hedge to the policy's budget: as the first to do so
	Clock   clockx.Clock // the policy's, never nil
}

// EarnedBudget lets calls earn their retries. Use it unless you know better, one for each
// part of a system that can fail alone.
//
// A new one has nine tokens. A retry costs two tokens, and one after a [TimedOut] error
// ten, since the server may still be at work on that attempt; these ten double with each
// run that fails after such a retry, up to 160, and halve again with each one that
// succeeds. A run that succeeds without a retry earns a tenth of a token, and one that
// succeeds after a retry four tokens, or twenty if its last retry followed a TimedOut error.
// A hedge costs two tokens, and gets them back if it is the first to succeed.
//
// If there are fewer tokens than a retry costs, Withdraw refuses and takes nothing. No
// token comes with time. Tokens beyond what a retry after a TimedOut error costs decay by
// the factor e in 5 s, and there are never more than a thousand and ten. So a process that
// has spent its tokens makes no retry until twenty of its calls have succeeded, and a new
// process none after a timeout until ten have, however many such processes there are.
//
// The zero value is ready. It measures time on the clocks of the policies that share it. If
// one is behind another, or is set back, no retry is refused because of that: tokens above
// ten may be lost, or not decay for up to a minute. A nil *EarnedBudget grants everything. Do
// not copy an EarnedBudget after the first use.
type EarnedBudget struct {
	word atomic.Uint64 // a purse
}

// purse is what an EarnedBudget holds, in one word. Its upper half is the number of
// tokens beyond those of a new one, in millionths: negative if there are fewer. Below
// them is how often the price after a timeout has doubled, in three bits. The rest is
// the tick at which the tokens were counted, which matters if some decay.
type purse uint64

const (
	token       = 1_000_000 // a tenth of it is exact, and decay is hardly rounded
	firstTokens = 9 * token
	tenTokens   = 10 * token
	mostTokens  = tenTokens + 1000*token
	price       = 2 * token // of a retry; after a timeout ten
	doublings   = 4         // of the latter, at most

	tick       = time.Second / 16 // a purse decays once in this time, and a full one does not change in between
	ticks      = 1 << 29          // after so many, which is a year, they begin anew
	fadingTime = 5 * time.Second
	patience   = uint32(time.Minute / tick) // a clock that is behind by at most this may catch up
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
		age := (now - p.at()) % ticks
		tokens = kept + int64(float64(above)*math.Exp(-float64(age)*tick.Seconds()/fadingTime.Seconds()))
	}
	return newPurse(tokens, p.doubled(), now)
}

// costOf returns what a retry after an error of class c costs.
func (p purse) costOf(c Class) int64 {
	if c == TimedOut {
		return tenTokens << p.doubled()
	}
	return price
}

// less returns p without n tokens. It reports false if there are not as many.
func (p purse) less(n int64) (purse, bool) {
	return newPurse(p.tokens()-n, p.doubled(), p.at()), p.tokens() >= n
}

// after returns p after a run with such an outcome.
func (p purse) after(o Outcome) purse {
	earned, doubled := int64(0), p.doubled()
	switch timedOut := o.Retried == TimedOut; {
	case o.OK && o.Retried == Unknown:
		earned = token / 10
	case o.OK && o.Hedge:
		earned = price
	case o.OK && timedOut:
		earned = 2 * tenTokens
		doubled = max(doubled, 1) - 1
	case o.OK:
		earned = 2 * price
	case timedOut:
		doubled = min(doubled+1, doublings)
	}
	return newPurse(min(p.tokens()+earned, mostTokens), doubled, p.at())
}

// Begin does nothing: a first attempt is free.
func (b *EarnedBudget) Begin(Opening) {}

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

// End adds what a success has earned, and changes the price after a timeout.
func (b *EarnedBudget) End(o Outcome) {
	if b == nil || !o.OK && o.Retried != TimedOut {
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

// Balance returns the number of tokens divided by ten, at most 1.
func (b *EarnedBudget) Balance() float64 {
	if b == nil {
		return 1
	}
	return float64(min(purse(b.word.Load()).tokens(), tenTokens)) / tenTokens
}

// tickOf returns the time on a clock, in ticks.
func tickOf(c clockx.Clock) uint32 { return uint32(reading(c) / tick) }

// reading returns what a clock shows, to compare with earlier readings. The system's
// clock, which a nil one means here, is read monotonically: nobody can set it back.
func reading(c clockx.Clock) time.Duration {
	if c == nil || c == clockx.System() {
		return time.Since(epoch)
	}
	return time.Duration(c.Now().UnixNano())
}

// TokenBudget is a bucket of tokens, as in the standard retry mode of the AWS SDKs. A
// retry takes Cost tokens, or ThrottleCost after a Throttled error. A success gives
// back what the run's last retry took, or Reward if it had none. So retries stop when
// too many of them fail, and resume when calls succeed.
//
// The zero value is a full bucket: Capacity 500, Cost 14, ThrottleCost 5,
// Reward 1. A negative field counts as zero tokens, and a negative Capacity grants
// nothing. A cost above Capacity counts as Capacity, so that a full bucket always
// grants a retry. A nil *TokenBudget grants everything. Set the fields before the
// first use and do not copy it after.
type TokenBudget struct {
	Capacity, Cost, ThrottleCost, Reward int

	used atomic.Int64
}

// Begin does nothing: a first attempt is free.
func (b *TokenBudget) Begin(Opening) {}

// Withdraw takes the cost of a retry, if the bucket holds it.
func (b *TokenBudget) Withdraw(w Withdrawal) bool {
	if b == nil {
		return true
	}
	cost, capacity := b.cost(w.Class), b.capacity()
	if capacity == 0 {
		return false
	}
	for {
		used := b.used.Load()
		if cost > capacity-used {
			return false
		}
		if b.used.CompareAndSwap(used, used+cost) {
			return true
		}
	}
}

// End puts tokens back after a success.
func (b *TokenBudget) End(o Outcome) {
	if b == nil || !o.OK {
		return
	}
	back := tokens(b.Reward, 1)
	if o.Retried != Unknown {
		back = b.cost(o.Retried)
	}
	for {
		used := b.used.Load()
		if used == 0 || b.used.CompareAndSwap(used, max(used-back, 0)) {
			return // mostly it is full: then nobody writes, and cores do not wait for each other
		}
	}
}

// Balance returns the fraction of Capacity that is left, in [0,1].
func (b *TokenBudget) Balance() float64 {
	if b == nil {
		return 1
	}
	capacity := b.capacity()
	if capacity == 0 {
		return 0
	}
	return float64(capacity-b.used.Load()) / float64(capacity)
}

func (b *TokenBudget) capacity() int64 { return tokens(b.Capacity, 500) }

func (b *TokenBudget) cost(c Class) int64 {
	cost := tokens(b.Cost, 14)
	if c == Throttled {
		cost = tokens(b.ThrottleCost, 5)
	}
	return min(cost, b.capacity())
}

// tokens returns n, or the default if n is 0, or 0 if n is negative.
func tokens(n, byDefault int) int64 {
	if n == 0 {
		n = byDefault
	}
	return int64(max(n, 0))
}

// RatioBudget allows retries ≤ Ratio × successes + MinPerSecond × Window, both counted
// over the last Window. A success is a run that succeeded, even after a retry. So
// retries add at most the fraction Ratio to the calls that succeed, and hardly
// anything while all calls fail. The limit is exact under contention.
//
// A process with few calls would never get a retry by that rule. So if the Window
// allows less than one retry and has had none, one is granted all the same. After that
// one, ⌈1/Ratio⌉ runs must succeed before the next such retry. These retries count in
// the Window. So a new RatioBudget grants one retry, and then none until runs succeed.
//
// The zero value has Ratio 0.1, MinPerSecond 0 and Window 10 s. A negative Ratio
// counts as zero, and then a process with few calls gets no retry either. The window
// moves in tenths, on the clocks of the policies that share the budget. If a clock is behind
// by more than a minute and a Window, because it was set back or is another one, a new
// Window starts. If it is behind by less, the window stands still until the clock has caught
// up. A nil *RatioBudget grants everything. Set the fields before the first use and do not
// copy it after.
type RatioBudget struct {
	Ratio float64

	// MinPerSecond is how many retries per second are granted without successes, to each
	// process: a thousand processes get a thousand times as many. Zero or negative means
	// none.
	MinPerSecond float64

	Window time.Duration

	mu     sync.Mutex
	clock  clockx.Clock      // of the latest Withdraw or End, for Balance
	shift  int64             // added to the clock's tenths to get indices, which never go back
	newest int64             // the index of the tenth underway; 0 before the first
	owed   int64             // successes that must follow before a process with few calls gets another retry
	ring   [tenths + 1]tenth // the last Window, and the tenth of it underway
}

const tenths = 10

// tenth counts what happened in a tenth of a window.
type tenth struct{ successes, retries int64 }

// Begin does nothing: a first attempt is free.
func (b *RatioBudget) Begin(Opening) {}

// Withdraw counts a retry, if the window has room for it.
func (b *RatioBudget) Withdraw(w Withdrawal) bool {
	if b == nil {
		return true
	}
	now := b.now(w.Clock)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = w.Clock
	t := b.current(now)
	successes, retries := b.sum()
	if float64(retries+1) > b.allowed(successes) {
		if retries > 0 || !b.lends() {
			return false
		}
		b.owed = b.successesPerRetry()
	}
	t.retries++
	return true
}

// End counts a run that succeeded.
func (b *RatioBudget) End(o Outcome) {
	if b == nil || !o.OK {
		return
	}
	now := b.now(o.Clock)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = o.Clock
	b.current(now).successes++
	b.owed = max(b.owed, 1) - 1
}

// Balance returns which fraction of the retries now allowed is left, in [0,1].
func (b *RatioBudget) Balance() float64 {
	if b == nil {
		return 1
	}
	b.mu.Lock()
	clock := b.clock
	b.mu.Unlock()
	now := b.now(clock)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current(now)
	successes, retries := b.sum()
	allowed := math.Floor(b.allowed(successes))
	if allowed == 0 && b.lends() {
		allowed = 1
	}
	if float64(retries) >= allowed {
		return 0
	}
	return 1 - float64(retries)/allowed
}

func (b *RatioBudget) allowed(successes int64) float64 {
	return allowance(b.ratio(), successes) + unfused(max(orZero(b.MinPerSecond), 0)*b.window().Seconds())
}

// lends reports whether a retry is granted that the window has no room for, provided
// that there was none in the window.
func (b *RatioBudget) lends() bool { return b.ratio() > 0 && b.owed == 0 }

// successesPerRetry returns ⌈1/Ratio⌉, with the rounding of allowance.
func (b *RatioBudget) successesPerRetry() int64 {
	return int64(min(max(math.Ceil((1-rounding)/b.ratio()), 1), math.MaxUint32))
}

func (b *RatioBudget) ratio() float64 {
	if b.Ratio == 0 {
		return .1
	}
	return b.Ratio
}

func (b *RatioBudget) window() time.Duration {
	if b.Window <= 0 {
		return 10 * time.Second
	}
	return b.Window
}

// now returns the time on a clock in tenths of the window. Call it without the mutex: the
// clock may run any code.
func (b *RatioBudget) now(c clockx.Clock) int64 { return int64(reading(c) / b.length()) }

// length returns that of a tenth.
func (b *RatioBudget) length() time.Duration { return max(b.window()/tenths, 1) }

// current returns the tenth underway at a time in tenths, and empties what is no longer
// in the window. A goroutine that has read the clock before others counts with them.
func (b *RatioBudget) current(now int64) *tenth {
	index := now + b.shift
	if behind := b.newest - index; b.newest == 0 || behind < -tenths || behind > tenths+int64(time.Minute/b.length()) {
		b.shift = b.newest - now + tenths + 1 // a new window, after all that was counted
		index = now + b.shift
	}
	for i := b.newest + 1; i <= index; i++ {
		b.ring[i%int64(len(b.ring))] = tenth{}
	}
	b.newest = max(b.newest, index)
	return &b.ring[b.newest%int64(len(b.ring))]
}

// sum adds up the window.
func (b *RatioBudget) sum() (successes, retries int64) {
	for _, t := range b.ring {
		successes += t.successes
		retries += t.retries
	}
	return successes, retries
}

// rounding is added to a product of floats: .29 × 100 is a little less than 29.
const rounding = 1e-9

// allowance returns ratio × runs, at most what 32 bits hold.
func allowance(ratio float64, runs int64) float64 {
	return min(max(orZero(ratio*float64(runs)), 0)+rounding, math.MaxUint32)
}

// ConcurrencyBudget limits what retries hold in this process: memory, connections,
// goroutines. It does not protect a server that hangs: calls in flight pile up, and
// the limit rises with them. Use an [EarnedBudget] for that.
//
// It grants a retry if at most max(Min, Ratio × runs in flight) retries, this one
// included, would be in flight. The limit is exact under contention. A run holds one
// place from its first granted retry, waits included, until it ends. If runs end and
// the limit falls below the number of places held, the retries underway finish, but
// their runs get no further retry.
//
// The zero value has Ratio 0.2 and Min 3. A negative field counts as zero. A nil
// *ConcurrencyBudget grants everything. Set the fields before the first use and do
// not copy it after.
type ConcurrencyBudget struct {
	Ratio float64
	Min   int

	state atomic.Uint64 // an inFlight: one word, so that both numbers change together
}

// inFlight has the number of runs in its upper half, and the number of retries in its
// lower half.
type inFlight uint64

const oneRun = 1 << 32

func (n inFlight) runs() int64    { return int64(n / oneRun) }
func (n inFlight) retries() int64 { return int64(n % oneRun) }

// Begin counts a run in flight.
func (b *ConcurrencyBudget) Begin(Opening) {
	if b != nil {
		b.state.Add(oneRun)
	}
}

// Withdraw takes a place for a run's first retry. A later one keeps that place
// while the limit allows it.
func (b *ConcurrencyBudget) Withdraw(w Withdrawal) bool {
	if b == nil {
		return true
	}
	for {
		n := inFlight(b.state.Load())
		switch {
		case w.Retry > 1:
			return n.retries() <= b.allowed(n)
		case n.retries()+1 > b.allowed(n):
			return false
		case b.state.CompareAndSwap(uint64(n), uint64(n+1)):
			return true
		}
	}
}

// End gives back what the run took.
func (b *ConcurrencyBudget) End(o Outcome) {
	if b == nil {
		return
	}
	n := uint64(oneRun)
	if o.Retried != Unknown {
		n++
	}
	b.state.Add(-n)
}

// Balance returns which fraction of the places now allowed is free, in [0,1].
func (b *ConcurrencyBudget) Balance() float64 {
	if b == nil {
		return 1
	}
	n := inFlight(b.state.Load())
	if n.retries() == 0 {
		return 1
	}
	return max(1-float64(n.retries())/float64(b.allowed(n)), 0)
}

func (b *ConcurrencyBudget) allowed(n inFlight) int64 {
	ratio, floor := b.Ratio, b.Min
	if ratio == 0 {
		ratio = .2
	}
	if floor == 0 {
		floor = 3
	}
	return max(int64(allowance(ratio, n.runs())), int64(floor))
}
