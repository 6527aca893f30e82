package pacing

import (
	"math"
	"time"

	"github.com/goretry/retry/internal/trial"
)

// The constants of the law. Those without a reason are fitted: chosen by simulations of
// quotas on some seeds, and tested on others.
const (
	lowestRate  = 1. / 20 // attempts per second
	highestRate = 1e9     // which is no limit: but an infinite rate could never fall

	// While it counts:
	countFade    = 10 * time.Second       // in which what is counted fades by the factor e
	countLosses  = 1.5                    // throttled attempts that end the counting: two, of which the first has faded by half
	countShare   = 1. / 8                 // share of throttled attempts that ends the counting
	assumedShare = countShare             // share that is assumed if a law did not count
	countLeast   = 100 * time.Millisecond // least time of counting: less tells no rate
	floodLosses  = 16                     // throttled attempts that were under way: fewer may be chance
	floodShare   = 2. / 5                 // share of these, and of the attempts since, from which on a hint holds all; fitted

	// For holds:
	hintShare      = .272 // share of throttled attempts from which on a hint holds all: 8 % by chance come so far once in 10 000 times
	releaseSlowest = 8    // what the rate after a hold is divided by at most: half of the seconds that it took

	// For cuts of the rate:
	shareMemory  = 16           // attempts of which law.lately is the throttled part,
	recentMemory = 128          // and attempts of law.recent
	cutApart     = 2 * timerLag // least time between two cuts: a late timer lets many attempts start at once
	trialPart    = 1. / 2       // of the rate before the cuts is tried: if the rate is the reason, far less is throttled, or nothing
	droughtRow   = 8            // throttled attempts in a row from which on the server refuses all, whatever the rate; fitted

	// For the gain of the rate, while attempts wait:
	gainPerStart = .0015  // of the rate, with each attempt,
	gainMost     = .15    // but no more than this in a second
	gainCalm     = 5625   // seconds in which the gain per second grows by 1
	gainBack     = 30     // seconds in which it also grows by 1, at a rate e times lower than deepCut allows
	gainRespite  = .02    // of the rate, in a second of a respite; fitted
	deepCut      = 1. / 2 // of the rate before the cuts: below that the rate grows back faster
	peakFade     = 30     // seconds in which the rate before the cuts is forgotten
	promptDelay  = .3     // seconds: if refusals take longer, the rate grows by as much less

	// For the end:
	openAfter  = 10 * time.Second // without waits and throttled attempts, before the law is open,
	openStarts = 8                // and the time of so many attempts: at a low rate ten seconds show nothing
	rateMemory = 5 * time.Minute  // for which an open law remembers its rate
)

// state is what the law does. The first throttled attempt ends open: the law counts, or is paced at
// once if it remembers a rate. A hold makes it held, unless it is paced. Enough throttled attempts,
// or the end of the hold, make it paced. It is open again when nothing waits, after some calm.
type state uint8

const (
	open     state = iota // nothing waits, and nothing is counted
	counting              // nothing waits: is it the rate that is throttled, or one attempt in many?
	held                  // all wait, and how many are throttled is not known yet: nor is the rate
	paced                 // attempts start one by one, at the rate
)

// law finds the rate at which attempts may start, by what became of others. It is arithmetic: it
// knows no clock and no queue.
//
// A throttled attempt cuts the rate, at most once a round: the larger the share of throttled attempts,
// the deeper the cut. While attempts wait, the rate grows, the faster the longer none was throttled. If
// cuts do not help, a trial shows whether the rate is the reason. If it is not, that share cuts no rate
// for a respite.
type law struct {
	state  state
	since  time.Time // when counting or the hold began, or of the latest cut
	busy   time.Time // when an attempt last had to wait, or was throttled
	round  uint64    // of the attempts that start now: each cut and each verdict begins one
	oldest uint64    // the round when counting or the hold began: attempts of earlier ones were under way

	rate     float64 // attempts per second; the last one known while it is open
	ramp     float64 // the rate after a hold, to which it doubles each two seconds, or in delay if that is more
	calm     float64 // seconds since the last throttled attempt in which attempts waited, and none was held
	arrivals float64 // attempts per second when they were counted last
	delay    float64 // seconds until an attempt was throttled, recently

	passed float64 // attempts that have started since one was throttled
	lately float64 // share of the latest few attempts that was throttled: says how deep to cut, and whether a hint holds
	recent sample  // the latest many, which say whether the rate is the reason; while it is counting, those of the last seconds

	census census // while it is counting
	cuts   cuts   // while it is paced
}

// census is what is counted besides law.recent. It fades, too.
type census struct {
	took       float64 // seconds in which the attempts of law.recent have started
	stragglers float64 // throttled attempts that were under way before
}

// cuts is what was seen while the rate was lowered.
type cuts struct {
	peak    float64       // the highest rate before the recent cuts; 0 before the first
	row     int           // attempts that were throttled one after another
	trial   trial.Trial   // is the rate the reason?
	respite trial.Respite // if it is not
}

// sample is some attempts, and how many of them were throttled.
type sample struct{ sent, lost float64 }

func (s sample) share() float64 { return min(s.lost/max(s.sent, 1), 1) }

// lose notes that one more of them was throttled.
func (s *sample) lose() { s.lost = min(s.lost+1, s.sent) }

// shorten keeps the share, but of so many attempts at most.
func (s *sample) shorten(n float64) {
	if s.sent > n {
		s.sent, s.lost = n, s.lost*n/s.sent
	}
}

// start notes that an attempt has started.
func (l *law) start() {
	l.lately -= l.lately / shareMemory
	l.passed++
	l.recent.sent++
	if l.state == counting {
		return
	}
	l.recent.shorten(recentMemory)
	if l.cuts.trial.Round > 0 {
		l.cuts.trial.Sent++
		l.judge()
	}
}

// unstart takes back that an attempt has started in a round: nothing was sent.
func (l *law) unstart(round uint64) {
	if round < l.oldest {
		return
	}
	l.lately = min(l.lately/(1-1./shareMemory), 1)
	l.passed = max(l.passed-1, 0)
	l.recent.sent = max(l.recent.sent-1, l.recent.lost)
	if l.cuts.trial.Round > 0 && round >= l.cuts.trial.Round {
		l.cuts.trial.Sent = max(l.cuts.trial.Sent-1, 0)
	}
}

// throttled notes that an attempt was throttled. It reports whether the server's hint holds all
// attempts.
func (l *law) throttled(now time.Time, r Refusal) (holds bool) {
	l.delay += (r.Took.Seconds() - l.delay) / shareMemory
	remembered := l.rate > 0 && now.Sub(l.busy) < rateMemory
	l.busy, l.calm = now, 0
	switch {
	case l.state == open:
		l.count(now)
		if remembered {
			l.state, l.lately = paced, assumedShare
		}
		return false
	case l.state == held:
		return false
	case r.Round < l.oldest: // it was under way when the counting began
		return l.state == counting && l.flood()
	case l.state == counting:
		l.throttledCounting(now)
	case l.state == paced:
		l.throttledPaced(now, r.Round)
	}
	return l.obeys()
}

// obeys reports whether so many of the latest attempts were throttled that a hint holds all.
func (l *law) obeys() bool { return l.lately >= hintShare+l.cuts.respite.Unrelated() }

// flood notes that an attempt was throttled which was under way when the counting began, and
// reports whether a hint holds all. How many such there were is not known, but as many
// end in some time as start, if nothing changes.
func (l *law) flood() bool {
	l.census.stragglers++
	n := l.census.stragglers
	return n >= floodLosses && n >= floodShare*(n+l.recent.sent)
}

// throttledCounting begins to pace if enough of what was counted is throttled. Until then share is 0.
func (l *law) throttledCounting(now time.Time) {
	l.recent.lose()
	if l.recent.lost < countLosses || l.recent.share() < countShare || now.Sub(l.since) < countLeast {
		return
	}
	l.lately = l.recent.share()
	l.arrivals = l.recent.sent / l.census.took
	l.paceAt(now, max(l.recent.sent-l.recent.lost, 1)/l.census.took)
	l.recent.shorten(recentMemory)
	l.passed = 0
}

// throttledPaced lowers the rate, and begins anew to count the attempts that pass.
func (l *law) throttledPaced(now time.Time, round uint64) {
	l.recent.lose()
	l.cut(now, round)
	l.cuts.row++
	if l.passed > 1 { // others have passed since the last one
		l.cuts.row = 0
	}
	if l.cuts.row >= droughtRow {
		l.cuts.peak = max(l.cuts.peak, l.arrivals)
	}
	l.lately = min(l.lately+1./shareMemory, 1) // more at once: many were under way
	l.passed = 0
}

// cut lowers the rate after a throttled attempt, unless another one of its round has, or the rate
// is on trial, or not the reason.
func (l *law) cut(now time.Time, round uint64) {
	c := &l.cuts
	due := round == l.round && now.Sub(l.since) >= cutApart
	c.respite.Doubt(l.passed)
	share := l.recent.share()
	switch {
	case c.respite.Left > 0:
		if x := c.respite.Excess(share, recentMemory); x > 0 && due {
			l.paceAt(now, l.rate*(1-trial.Loss(x)))
		}
	case c.trial.Round > 0:
		if round >= c.trial.Round { // it had not started before
			c.trial.Note()
		}
	default:
		c.trial.Doubt(l.rate, l.passed, share)
		if due {
			l.paceAt(now, l.cutOrTry(share))
		}
	}
}

// cutOrTry returns the rate after a cut, which may begin a trial.
func (l *law) cutOrTry(share float64) float64 {
	c := &l.cuts
	rate := l.rate * (1 - trial.Loss(l.lately))
	if !c.trial.Due(rate, share) {
		return rate
	}
	c.trial.Begin(l.round+1, l.rate, rate, share)
	return min(trialPart*c.trial.Top, l.rate)
}

// judge ends a trial if it shows enough.
func (l *law) judge() {
	t := l.cuts.trial
	switch t.Verdict() {
	case trial.Undecided:
		return
	case trial.Same:
		l.cuts.respite.Begin(t)
		l.rate = t.Top
		l.recent = sample{recentMemory, recentMemory * l.cuts.respite.Base}
	case trial.Other:
		l.cuts.respite.Verdicts /= 2
		l.rate = t.After(l.rate)
	}
	l.cuts.trial = trial.Trial{}
	l.round++
}

// count begins to count.
func (l *law) count(now time.Time) {
	l.round++
	l.state, l.oldest, l.since, l.lately = counting, l.round, now, 0
	l.recent, l.census, l.passed = sample{}, census{}, 0
}

// startHold begins a hold before the rate is known.
func (l *law) startHold(now time.Time) {
	l.count(now)
	l.state, l.lately = held, assumedShare
}

// endHold ends such a hold. Attempts of a size have come since the first began to wait: they start at
// twice the rate at which they came. After a long hold, or if refusals come late, that rate is reached in
// some seconds: if all are still refused, few have started when that is known.
func (l *law) endHold(now time.Time, size float64, began time.Time) {
	l.busy = now
	rate := 2 * size / max(now.Sub(began).Seconds(), 1)
	unknown := max(now.Sub(l.since).Seconds(), l.delay)
	l.paceAt(now, rate/min(max(unknown/2, 1), releaseSlowest))
	l.ramp = rate
}

// paceAfresh begins to pace at a rate, whatever has become of earlier attempts.
func (l *law) paceAfresh(now time.Time, rate float64) {
	l.paceAt(now, rate)
	l.oldest, l.busy, l.calm, l.lately, l.recent, l.passed = l.round, now, 0, 0, sample{}, 0
}

// paceAt lets attempts start at a rate, and begins a round.
func (l *law) paceAt(now time.Time, rate float64) {
	if l.state == paced {
		l.cuts.peak = max(l.cuts.peak, l.rate)
	}
	l.state, l.rate, l.ramp = paced, max(rate, lowestRate), 0
	l.round++
	l.since = now
}

// calmed reports whether the law is to open, if nothing waits and no hold is on.
func (l *law) calmed(now time.Time) bool {
	calm := now.Sub(l.busy)
	switch l.state {
	case counting:
		return calm > openAfter
	case paced:
		return calm > openAfter+inSeconds(openStarts/l.rate)
	}
	return l.state == held
}

// reopen forgets what is of no use when it counts again.
func (l *law) reopen() { l.state, l.cuts, l.ramp, l.calm = open, cuts{}, 0, 0 }

// lapse notes that seconds have passed, in which attempts have waited or not.
func (l *law) lapse(seconds float64, waited bool) {
	switch l.state {
	case counting:
		l.fade(seconds)
	case paced:
		if waited {
			l.grow(seconds)
		}
		l.cuts.respite.Left = max(l.cuts.respite.Left-seconds, 0)
	}
}

// fade lets what was counted fade. Attempts that start, those that come back throttled and
// the time fade alike: how long an answer takes does not matter.
func (l *law) fade(seconds float64) {
	f := math.Exp(-seconds / countFade.Seconds())
	l.recent = sample{l.recent.sent * f, l.recent.lost * f}
	l.census.stragglers *= f
	l.census.took = l.census.took*f + countFade.Seconds()*(1-f)
}

// grow raises the rate after some seconds in which attempts waited. Whether an attempt
// succeeds is known up to a minute later, so only the time that has passed since one was
// throttled says that the rate is too low.
func (l *law) grow(seconds float64) {
	l.calm += seconds
	if l.cuts.trial.Round > 0 {
		return // its attempts start at one rate
	}
	if l.rate < l.ramp {
		l.rate = min(l.rate*math.Exp2(seconds/max(2, l.delay)), l.ramp)
		return
	}
	// While all attempts are throttled, the server is down or has closed. That says nothing about
	// the rate that it accepts later, so the rate before is not forgotten.
	if l.cuts.row < droughtRow {
		l.cuts.peak -= l.cuts.peak * min(seconds/peakFade, 1)
	}
	l.rate = min(l.rate+l.rate*min(seconds*l.gain(), 1), highestRate)
}

// gain returns the part of the rate that is gained in a second.
func (l *law) gain() float64 {
	// This makes up for what attempts cost that are throttled whatever the rate is, up to one in
	// twenty.
	gain := min(gainPerStart*l.rate, gainMost)
	// This lets slow processes and fast ones find the same rate: fast ones are throttled more often.
	gain += l.calm / gainCalm
	gain += l.comeback()
	// A rate that is not the reason may have been too low for what comes, and calm does not show that.
	if l.cuts.respite.Seeks(l.rate) {
		gain += gainRespite
	}
	// What the rate gains before its first refusal is known is too much, so the gain in that time stays
	// the same however late refusals come.
	return gain / max(l.delay/promptDelay, 1)
}

// comeback returns the gain that brings a process back which lost nearly all of its rate by chance,
// when the quota was used up: below half of the rate before its recent cuts it grows the faster the
// more it has lost. A second without a throttled attempt says less if hardly one started in it, so
// below one attempt per second it grows by less.
func (l *law) comeback() float64 {
	lost := l.cuts.peak * deepCut / l.rate
	if lost <= 1 {
		return 0
	}
	return math.Log(lost) * l.calm / gainBack * min(l.rate, 1)
}
