package pacing_test

import (
	"testing"
	"time"

	"github.com/goretry/retry/internal/pacing"
)

// stated is what a server says of a quota of ten in a second, a hundred at once.
func stated(remaining float64) pacing.Stated {
	return pacing.Stated{Rate: 10, Burst: 100, Remaining: remaining}
}

// wantFree fails unless so many may start now. They do not.
func wantFree(t *testing.T, what string, p *pacing.Pacer, now time.Time, want int) {
	t.Helper()
	var turns []*pacing.Turn
	for wait, ok := time.Duration(0), true; ok; {
		turn := new(pacing.Turn)
		if wait, ok = p.Enter(now, turn, 0); ok && wait == 0 {
			turns = append(turns, turn)
		}
	}
	for _, turn := range turns {
		p.Return(turn, false)
	}
	if len(turns) != want {
		t.Errorf("%s: %d may start, want %d", what, len(turns), want)
	}
}

func TestStatedQuota(t *testing.T) {
	for _, tt := range []struct {
		what string
		tell func(p *pacing.Pacer, now time.Time)
		free int
	}{
		{"what remains", func(p *pacing.Pacer, now time.Time) { p.Tell(now, stated(7), 1, 0) }, 7},
		{"but for what has started since", func(p *pacing.Pacer, now time.Time) { p.Tell(now, stated(7), 1, 5) }, 2},
		{"more has started than remains", func(p *pacing.Pacer, now time.Time) { p.Tell(now, stated(1), 1, 5) }, 0},
		{"less than by the own count", func(p *pacing.Pacer, now time.Time) {
			p.Tell(now, stated(50), 1, 0)
			p.Tell(now, stated(20), 2, 3)
		}, 17},
		{"more than by the own count", func(p *pacing.Pacer, now time.Time) {
			p.Tell(now, stated(50), 1, 40)
			p.Tell(now, stated(49), 2, 0)
		}, 10},
		{"as much more as attempts have ended", func(p *pacing.Pacer, now time.Time) {
			p.Tell(now, stated(50), 3, 40)
			p.Tell(now, stated(51), 4, 0) // it was counted before the one above
		}, 10},
		{"also if they are ignored", func(p *pacing.Pacer, now time.Time) {
			p.Tell(now, stated(50), 3, 40)
			p.Tell(now, stated(52), 2, 1)
			p.Tell(now, stated(52), 4, 0)
		}, 10},
		{"a new window", func(p *pacing.Pacer, now time.Time) {
			p.Tell(now, stated(50), 1, 40)
			p.Tell(now, stated(99), 2, 20)
		}, 79},
		{"an earlier attempt", func(p *pacing.Pacer, now time.Time) {
			p.Tell(now, stated(50), 2, 0)
			p.Tell(now, stated(3), 1, 1)
		}, 50},
		{"an earlier attempt, but for those that were not made", func(p *pacing.Pacer, now time.Time) {
			p.Tell(now, stated(50), 9, 0)
			p.Tell(now, stated(3), 2, 0) // two have started
		}, 3},
		{"time passes", func(p *pacing.Pacer, now time.Time) { p.Tell(now.Add(-2*time.Second), stated(7), 1, 0) }, 27},
		{"a hold goes on", func(p *pacing.Pacer, now time.Time) {
			p.Hold(now, time.Second)
			p.Tell(now, stated(7), 1, 0)
		}, 0},
		{"a quota of its own", func(p *pacing.Pacer, now time.Time) {
			p.Know(now, 1, 2)
			p.Tell(now, stated(7), 1, 0)
		}, 2},
	} {
		p, now := new(pacing.Pacer), time.Unix(1000, 0)
		tt.tell(p, now)
		wantFree(t, tt.what, p, now, tt.free)
	}
}

// Nothing is doubted: whatever is throttled, the rate is what the server states last.
func TestAStatedQuotaIsNotDoubted(t *testing.T) {
	p, now := new(pacing.Pacer), time.Unix(1000, 0)
	p.Tell(now, stated(100), 1, 0)
	for range 60 {
		throttle(p, now, 0)
		now = now.Add(time.Second)
	}
	if rate, part, seems := p.Quota(now); rate != 10 || p.Rate(now) != 10 || part != 1 || seems != 0 {
		t.Errorf("a rate of %v, of which %v were throttled, and that seems to be %v", rate, part, seems)
	}
	if p.Tell(now, pacing.Stated{Rate: 5, Burst: 100}, 2, 0); p.Rate(now) != 5 {
		t.Errorf("the server states five in a second, and the rate is %v", p.Rate(now))
	}
}

// More than the quota does not remain.
func TestNoMoreThanTheQuotaRemains(t *testing.T) {
	p, now := new(pacing.Pacer), time.Unix(1000, 0)
	p.Tell(now, pacing.Stated{Rate: 1, Burst: 100, Remaining: 1e6}, 0, 0)
	wantFree(t, "a million remain of a hundred", p, now, 100)
}

// Much has started since an attempt whose answer takes long, which time has paid. So what has started since may leave nothing
// for now, and the next starts when its unit comes.
func TestAnswersThatTakeLong(t *testing.T) {
	p, now := new(pacing.Pacer), time.Unix(1000, 0)
	p.Tell(now, stated(1), 1, 500)
	for range 10 {
		if w := p.Wait(now); w != 100*ms+1 {
			t.Fatalf("the next waits %v", w)
		}
		p.Tell(now, stated(1), 1, 500)
	}
	now = now.Add(10 * time.Second)
	wantFree(t, "ten seconds later", p, now, 100)
}
