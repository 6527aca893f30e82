package limit

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/readings"
)

// Adaptive limits the attempts in flight to a dependency while fewer of them make its answers come
// sooner. It ends outages in which every answer comes too late, and it guesses: read in the package
// documentation whom that harms. Before there is evidence only Max limits, as that of a [Limit];
// zero is no limit. No guess goes below Min, or below one. It compares attempts with the time that they
// have, by Policy.AttemptTimeout or the deadline of ctx. Give it none without: it learns nothing from them, and
// after timeouts they may take its few places for as long as they last, from all. Use it as a Limit.
type Adaptive struct {
	Min, Max int

	mu           sync.Mutex
	flight, peak int    // attempts in flight, and the most since places changed
	places       int    // 0: no limit but Max
	change       uint32 // how often places have changed: an attempt whose Round has another number began before, and tells nothing of it
	window       window

	allowed      time.Duration // that attempts have, on average; 0: none has ended
	first, heard time.Duration // when the first that ended began; when the latest answer came, or the first in flight began
	mean, usual  float64       // share of its time that an answer takes: the latest, and what follows them slowly
	calm, hung   float64       // attempts in flight while answers are quick; share of them that time out at any load

	silent, quick int     // timeouts, and quick answers, in a row
	asking        bool    // few attempts are made, until one is answered
	before        float64 // what an answer cost when the experiment began, which has fewer places; 0: there is none
	tried         int     // places then
	vain          int     // judgements since; below zero: a limit has helped
	refused, rest int     // attempts refused since it limits, and those until it may again
}

// window is what attempts have come to since one ended that began with the present places, until judge.
type window struct {
	open           bool
	began, counted time.Duration // when it did, and until when spent is counted
	ended, answers int
	spent          float64 // time of all in flight
}

const (
	smooth = 32 // answers in a mean, and a step in so many when slowness becomes usual

	// Shares of the time that attempts have:
	slow = 1. / 4 // up to which an answer is quick: a queue may grow fourfold before answers are late
	busy = .45    // the most that is usual: twice as long, which is quick then, is still in time
	goal = .375   // at which it aims: of random times around it 7 % are longer than the whole
	far  = .6     // or, if that is more, at twice what is usual, up to this

	doubt = 4. / 3 // times its aim up to which it begins no experiment before it has helped
	spare = 1.1    // times the most so far, when answers become slow: a backlog stops growing, and a steady load has room

	// Parts of the places that an experiment leaves:
	least = .5 // what it refuses may be lost
	most  = .7 // of less chance hides the effect

	hope    = .8   // part of the cost below which a second judgement may help
	proof   = 10   // judgements once the limit has helped: that one of them is wrong is one in ten, by chance
	few     = 16   // attempts to judge by, or as many as there are places: off by a quarter
	quiet   = 8    // timeouts in a row that may be silence, unless
	chance  = 1e-6 // they are more likely than that at random: so once a day at ten per second
	penalty = 100  // attempts to pay for one refused in vain: at most one in a hundred is
)

// silence is an ErrLimited of a dependency that has answered nothing for so long.
type silence struct {
	limited
	wait time.Duration
}

func (silence) Is(target error) bool        { return target == ErrLimited }
func (s silence) RetryAfter() time.Duration { return s.wait }

// Enter takes a place for an attempt, or refuses it with [ErrLimited]. If nothing has been answered
// for longer than a quick answer takes, the error asks for a wait of as long again, at most one and a
// half times as long as attempts have: if attempts hang, no place becomes free before some time out. It asks for that also
// if they are refused quickly, since a refusal is no answer.
func (l *Adaptive) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	if l == nil {
		return retry.Pass{}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if full := l.flight >= l.bound(); full || l.places > 0 || l.flight == 0 {
		now := readings.Of(e.Clock)
		l.count(now)
		if l.flight == 0 {
			l.heard = now
		}
		if full {
			l.quick, l.refused = 0, l.refused+1
			if wait := now - l.heard; l.allowed > 0 && float64(wait) > l.tolerable()*float64(l.allowed) {
				return retry.Pass{}, silence{wait: min(wait, l.allowed+l.allowed/2)}
			}
			return retry.Pass{}, ErrLimited
		}
	}
	l.flight++
	l.peak = max(l.peak, l.flight)
	return retry.Pass{Round: uint64(l.change)<<32 | uint64(l.flight-1)}, nil
}

// bound returns how many attempts may be in flight.
func (l *Adaptive) bound() int {
	return min(cmp.Or(l.places, math.MaxInt), max(cmp.Or(max(l.Max, 0), math.MaxInt), l.Min))
}

// tolerable returns the share of its time that a quick answer takes at most.
func (l *Adaptive) tolerable() float64 { return max(2*l.usual, slow) }

// Leave gives the place of an attempt back, and learns from what has become of it. Answers are a
// success, [retry.ErrRejected], a [retry.Answer] and any other Permanent error but one of
// [retry.Refuse]. Timeouts are an attempt whose deadline has passed, a TimedOut and any other error
// that says it timed out. All else, even a Throttled error, says nothing. Leave panics without an Enter.
func (l *Adaptive) Leave(p retry.Pass, x retry.Exit) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flight == 0 {
		panic("limit: Leave without Enter")
	}
	defer func() { l.flight-- }() // even if the clock panics
	now, v, returned := readings.Of(x.Clock), &x.Verdict, x.Ending == retry.Returned
	l.count(now)
	late := x.Ending == retry.Expired || returned && v.Err != nil && !v.IsAnswer() &&
		(v.Class == retry.TimedOut || (&retry.Error{Errs: []error{v.Err}}).Timeout()) // such as a dial, which is Unprocessed
	answered := returned && !late && (v.Err == nil || v.Class == retry.Permanent && !v.Refused || v.Answered)
	if !late && !answered || x.Allowed <= 0 {
		return
	}
	if l.allowed == 0 {
		l.allowed, l.first = x.Allowed, now-x.Took
	}
	l.allowed += (x.Allowed - l.allowed) / smooth
	l.rest = max(l.rest-1, 0)
	change, fresh := l.change, uint32(p.Round>>32) == l.change
	if answered {
		l.learn(min(max(float64(x.Took)/float64(x.Allowed), 1e-9), 1), uint32(p.Round), fresh, now)
	} else if l.quick = 0; fresh {
		l.miss(now)
	}
	switch {
	case l.change != change, l.asking:
	case l.places == 0 && answered && l.rest == 0 && now-l.first >= l.allowed && l.mean > l.tolerable():
		l.refused, l.vain = 0, 0
		l.set(int(spare*float64(l.peak)) + 1)
	case l.places == 0:
	case !l.window.open: // before the first that began with these places, the others' backlog counts
		l.window = window{open: fresh, began: now, counted: now}
	default:
		w := &l.window
		if w.ended++; answered {
			w.answers++
		}
		if w.ended >= max(few, l.places) || w.ended >= few/4 && now-w.began >= 2*l.allowed {
			l.judge(now)
		}
	}
}

// learn learns from an answer: it took a share of its time, and others were in flight when it began.
func (l *Adaptive) learn(share float64, others uint32, fresh bool, now time.Duration) {
	l.hung = (1 - (1-l.hung)*math.Pow(255./256, float64(min(l.silent, 64)))) * 255 / 256 // a mean of 256
	step := min(max((now-l.heard).Minutes(), 0), 1./smooth)
	l.silent, l.heard, l.mean = 0, now, cmp.Or(l.mean, share)
	l.mean += (share - l.mean) / smooth
	if now-l.first < l.allowed {
		l.usual = l.mean // only quick ones can have come yet
	} else if l.places == 0 { // an overload must not become usual: that takes a minute for each doubling
		l.usual = min(max(l.mean, l.usual*(1-step)), l.usual*(1+step))
	}
	l.usual = min(max(l.usual, slow/2), busy)
	quick := share <= l.tolerable()
	switch {
	case l.asking && fresh: // what is still in flight may hang
		l.asking = false
		l.set(max(int(2*l.calm)+1, l.places) + l.flight - 1)
	case !quick:
		l.quick = 0
	case l.places == 0 && share <= max(l.usual, slow):
		l.calm += (float64(others) - l.calm) / smooth
	case l.places > 0 && fresh:
		if l.quick++; l.quick > few+2*l.places {
			l.set(0)
		}
	}
}

// miss learns from a timeout. After a row of them, what is sent comes on top of what is not done yet. So
// only twice as many attempts as are usual ask until one is answered, and half of them after another row.
func (l *Adaptive) miss(now time.Duration) {
	l.silent++
	switch at := math.Pow(l.hung, float64(l.silent)); {
	case l.silent < quiet, at >= chance, l.mean == 0, l.rest > 0, float64(now-l.heard) < l.tolerable()*float64(l.allowed):
	case l.places > 0:
		l.set(max(l.places/2, int(l.calm/2), 1))
	default:
		l.refused, l.vain, l.asking, l.before, l.tried = 0, 0, true, 1, l.flight
		l.set(int(2*l.calm) + 1)
	}
}

// count counts the time that attempts spend in flight.
func (l *Adaptive) count(now time.Duration) {
	if w := &l.window; w.open && now > w.counted {
		w.spent += float64(l.flight) * float64(now-w.counted) / float64(l.allowed)
		w.counted = now
	}
}

// judge compares what an answer costs, in time of all in flight, with what it cost with more places. If
// a queue made it slow it costs less, and there are as many. Else it costs as much: the limit lets go.
func (l *Adaptive) judge(now time.Duration) {
	cost, part := l.window.spent/float64(l.window.answers), float64(l.places)/float64(l.tried)
	target, used := min(max(2*l.usual, goal), far), min(l.places, l.peak)
	answered := l.window.answers > 0
	l.window = window{open: true, began: now, counted: now}
	switch {
	case !answered: // miss knows
	case cost <= target || l.before == 0 && l.vain >= 0 && cost <= doubt*target:
		if l.before > 0 {
			l.before, l.vain = 0, -proof
		}
		if l.peak = l.flight; 2*used >= l.places {
			l.set(int(math.Ceil(float64(l.places) * min(max(target/cost, 1), 2))))
		}
	case l.before > 0 && cost > l.before*(1+part)/2 && (l.vain != 0 || cost > hope*l.before):
		if l.vain++; l.vain > 0 {
			l.rest = penalty * l.refused
			l.set(0)
		} else { // it has helped, and so long answers take without a queue
			l.usual, l.before = min(max(l.usual, cost), busy), 0
		}
	default:
		if l.vain++; l.before == 0 {
			l.before, l.tried, l.vain = cost, used, l.vain-1
		}
		l.set(max(int(float64(used)*min(max(target/cost, least), most)), 1))
	}
}

func (l *Adaptive) set(places int) {
	l.places, l.peak = max(places, l.Min), l.flight
	if places == 0 { // it lets go
		l.places, l.before, l.asking, l.mean = 0, 0, false, l.usual
	}
	l.change++
	l.window, l.silent, l.quick = window{}, 0, 0
}

// InFlight returns how many attempts are in flight; 0 for a nil Adaptive.
func (l *Adaptive) InFlight() int { flight, _ := l.read(); return flight }

// Places returns how many attempts may be in flight now, or [math.MaxInt] while nothing limits them.
func (l *Adaptive) Places() int { _, places := l.read(); return places }

func (l *Adaptive) read() (flight, places int) {
	if l == nil {
		return 0, math.MaxInt
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flight, l.bound()
}
