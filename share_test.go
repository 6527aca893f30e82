package retry_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/fleetpace"
	"github.com/goretry/retry/internal/race"
)

// meeting is a store in memory. Processes reach it by a fleet each.
type meeting struct {
	mu    sync.Mutex
	state fleetpace.State
	trip  time.Duration           // of an exchange
	down  bool                    // Exchange returns an error at once
	hangs bool                    // and does not before its context ends
	deaf  bool                    // news is lost
	edit  func(*fleetpace.Answer) // of all answers
	ears  map[chan struct{}]bool
	lost  int // how often the state was lost
}

// lose empties the store.
func (m *meeting) lose() {
	m.set(func() { m.state = fleetpace.State{}; m.lost++ })
}

// pacedMeeting returns a meeting at which turns come at a rate. The first has come.
func pacedMeeting(rate float64) *meeting {
	m := new(meeting)
	m.state.Apply(m.now()-1/rate-1, 0, fleetpace.Report{Rate: rate})
	return m
}

func (m *meeting) now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

func (m *meeting) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// exchange is what a process has told, and when.
type exchange struct {
	at time.Time
	fleetpace.Report
	answer fleetpace.Answer
}

// process is a process of a fleet, with a Pace of its own.
type process struct {
	*meeting
	pace   retry.Pace
	policy retry.Policy
	told   []exchange // meeting.mu guards it
	left   chan error // gets what Share returns
}

// join returns a process that shares its Pace until ctx ends.
func (m *meeting) join(ctx context.Context) *process {
	p := &process{meeting: m, left: make(chan error, 1)}
	p.policy = retry.Policy{Guards: []retry.Guard{&p.pace}, MaxAttempts: 1}
	go func() { p.left <- p.pace.Share(ctx, p) }()
	synctest.Wait()
	return p
}

func (p *process) Exchange(ctx context.Context, r fleetpace.Report) (fleetpace.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, exchange{at: time.Now(), Report: r})
	hangs, trip := p.hangs, p.trip
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
	} else if trip > 0 {
		_ = clockx.System().Sleep(ctx, trip)
	}
	p.mu.Lock()
	if p.down || ctx.Err() != nil {
		return fleetpace.Answer{}, errors.New("the store is down")
	}
	a := p.state.Apply(p.now(), float64(p.lost)/(1<<40), r) // as good as 0, but of another epoch
	if p.edit != nil {
		p.edit(&a)
	}
	p.told[len(p.told)-1].answer = a
	if a.News && !p.deaf {
		for ear := range p.ears {
			select {
			case ear <- struct{}{}:
			default:
			}
		}
	}
	return a, nil
}

func (p *process) News(ctx context.Context) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	ear := make(chan struct{}, 1)
	if p.ears == nil {
		p.ears = make(map[chan struct{}]bool)
	}
	p.ears[ear] = true
	context.AfterFunc(ctx, func() { p.set(func() { delete(p.ears, ear) }) })
	return ear
}

// history returns the exchanges of p.
func (p *process) history() []exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// heard returns how many listen for news.
func (m *meeting) heard() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ears)
}

// exchanges returns when p has made exchanges, since begin.
func (p *process) exchanges(begin time.Time) (at []time.Duration) {
	for _, e := range p.history() {
		at = append(at, e.at.Sub(begin))
	}
	return at
}

// call makes a call, and returns how long it took until op was called, or the error.
func (p *process) call(ctx context.Context, op func(context.Context) error) (waited time.Duration, err error) {
	begin := time.Now()
	err = retry.Run(ctx, p.policy, func(ctx context.Context) error {
		waited = time.Since(begin)
		return op(ctx)
	})
	return waited, err
}

// calls makes so many calls at once, and returns how long each waited, the first first.
func (p *process) calls(ctx context.Context, n int) []time.Duration {
	waited := make([]time.Duration, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { waited[i], _ = p.call(ctx, works) })
	}
	wg.Wait()
	slices.Sort(waited)
	return waited
}

// micros rounds all to microseconds: turns are floats.
func micros(all []time.Duration) []time.Duration {
	for i := range all {
		all[i] = all[i].Round(time.Microsecond)
	}
	return all
}

// The first attempt of a process waits for the first answer, but not for longer than it needs.
func TestShareFirstAttemptWaitsForTheFirstAnswer(t *testing.T) {
	for _, tt := range []struct {
		trip    time.Duration
		hangs   bool
		timeout time.Duration
		want    time.Duration
	}{
		{trip: 0, want: 0},
		{trip: 7 * ms, want: 7 * ms},
		{trip: 499 * ms, want: 499 * ms},
		{trip: 501 * ms, want: 500 * ms},
		{hangs: true, want: 500 * ms},
		{hangs: true, timeout: 2 * time.Second, want: 500 * ms},
		{hangs: true, timeout: 300 * ms, want: 150 * ms}, // a half of its time, as for any turn
		{trip: 7 * ms, timeout: 300 * ms, want: 7 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &meeting{trip: tt.trip, hangs: tt.hangs}
			p := m.join(t.Context())
			ctx := t.Context()
			if tt.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.timeout)
				defer cancel()
			}
			if d, err := p.call(ctx, works); d != tt.want || err != nil {
				t.Errorf("%+v: started after %v, %v", tt, d, err)
			}
			time.Sleep(500*ms - tt.want)
			if d, err := p.call(t.Context(), works); d != 0 || err != nil {
				t.Errorf("%+v: half a second after the process has begun an attempt started after %v, %v", tt, d, err)
			}
		})
	}
}

// Who must wait takes a number: also if the last answer says that turns have come.
func TestShareTakesATurnForEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(10)
		p := m.join(t.Context())
		time.Sleep(time.Second)
		begin := time.Now()
		got := p.calls(t.Context(), 5)
		for i, d := range got { // the rate may have grown a little when the last ones ask
			if want := time.Duration(i) * 100 * ms; (d - want).Abs() > ms {
				t.Errorf("attempts started after %v, want 0.1 s between them", got)
			}
		}
		if tail := p.history()[len(p.history())-1].answer.Tail; math.Abs(tail-5) > 1e-9 {
			t.Errorf("%v turns were taken, want 5; exchanges %v", tail, p.exchanges(begin))
		}
	})
}

func TestShareReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(meeting)
		p := m.join(t.Context())
		if err := p.pace.Share(t.Context(), p); err == nil || err == t.Context().Err() {
			t.Errorf("a second Share returned %v", err)
		}
		if err := (*retry.Pace)(nil).Share(t.Context(), p); err == nil {
			t.Error("a nil Pace is shared")
		}
		if err := new(retry.Pace).Share(t.Context(), nil); err == nil {
			t.Error("a Pace is shared with a nil Fleet")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		q := m.join(ctx)
		if err := <-q.left; err != context.Canceled || len(q.history()) > 0 {
			t.Errorf("Share with a context that has ended returned %v after %d exchanges", err, len(q.history()))
		}
		if d, err := q.call(t.Context(), works); d != 0 || err != nil {
			t.Errorf("after that an attempt started after %v, %v", d, err)
		}
	})
}

// An open fleet costs nothing, and it is one exchange of each process.
func TestShareOfAnOpenPaceCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(meeting)
		p, q := m.join(t.Context()), m.join(t.Context())
		ctx, policy := t.Context(), p.policy
		if !race.Enabled {
			wantAllocs(t, 0, func() { sink, _ = retry.Do(ctx, policy, fetch) })
		}
		for range 100 {
			time.Sleep(time.Minute)
			if d, err := p.call(ctx, works); d != 0 || err != nil {
				t.Errorf("started after %v, %v", d, err)
			}
		}
		if len(p.history()) != 1 || len(q.history()) != 1 {
			t.Errorf("%d and %d exchanges, want one each", len(p.history()), len(q.history()))
		}
	})
}

// Share returns its context's error. Who waits goes on by the Pace's own law, at the rate at
// which the process has made attempts, and the Pace can be shared again.
func TestShareEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(10)
		ctx, cancel := context.WithCancelCause(t.Context())
		p := m.join(ctx)
		time.Sleep(time.Second)
		context.AfterFunc(ctx, func() { p.set(func() { p.down = true }) })
		time.AfterFunc(1950*ms, func() { cancel(errBusy) })
		got := micros(p.calls(t.Context(), 25))
		if err := <-p.left; err != context.Canceled {
			t.Errorf("Share returned %v, want %v", err, context.Canceled)
		}
		told := len(p.history())
		if got[19] >= 2000*ms || got[24] < 2200*ms || got[24] > 3200*ms {
			t.Errorf("attempts started after %v", got)
		}
		if r := p.pace.Rate(); r < 5 || r > 15 {
			t.Errorf("the rate is %v alone, and was 10", r)
		}
		time.Sleep(time.Minute)
		if len(p.history()) != told {
			t.Error("an exchange after Share has returned")
		}
		if m.heard() != 0 {
			t.Error("News goes on")
		}
		m.set(func() { m.down = false })
		go p.pace.Share(t.Context(), p)
		synctest.Wait()
		if len(p.history()) != told+1 {
			t.Error("no exchange after the Pace was shared again")
		}
	})
}

// Shared tells since when the fleet answers, or does not.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		want := func(p *retry.Pace, shared bool, since time.Duration) {
			t.Helper()
			if is, at := p.Shared(); is != shared || at.Sub(begin) != since {
				t.Errorf("Shared() = %v, since %v; want %v, since %v", is, at.Sub(begin), shared, since)
			}
		}
		m := &meeting{trip: 10 * ms}
		ctx, cancel := context.WithCancel(t.Context())
		never := (time.Time{}).Sub(begin)
		want(nil, false, never)
		want(new(retry.Pace), false, never)
		p := m.join(ctx)
		want(&p.pace, false, 0)
		time.Sleep(time.Minute)
		want(&p.pace, true, 10*ms)
		m.set(func() { m.hangs = true })
		p.pace.Hold(ms) // which is told
		time.Sleep(time.Minute)
		want(&p.pace, false, time.Minute+500*ms)
		m.set(func() { m.hangs = false })
		time.Sleep(time.Minute)
		if is, at := p.pace.Shared(); !is || at.Sub(begin) < 2*time.Minute || at.Sub(begin) > 2*time.Minute+4*time.Second {
			t.Errorf("Shared() = %v, since %v, after the store has come back", is, at.Sub(begin))
		}
		cancel()
		<-p.left
		want(&p.pace, false, never)
	})
}

// The first of who waits does not sleep on for what the fleet has said.
func TestShareEndsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(.1)
		ctx, cancel := context.WithCancel(t.Context())
		p := m.join(ctx)
		time.Sleep(time.Second)
		time.AfterFunc(time.Second, cancel)
		if got := p.calls(t.Context(), 2); got[0] != 0 || got[1] != time.Second {
			t.Errorf("started after %v, want at once and when Share has ended", got)
		}
	})
}

// A turn is kept for the next attempt, but not used before the process has heard what is new.
func TestShareAsksBeforeAnOldTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(10)
		p := m.join(t.Context())
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(80*ms, cancel)
		p.calls(ctx, 3)
		time.Sleep(5 * time.Second)
		told := len(p.history())
		if d, err := p.call(t.Context(), works); d != 1 || err != nil { // at once, but for a nanosecond
			t.Errorf("started after %v, %v", d, err)
		}
		if n := len(p.history()) - told; n == 0 {
			t.Error("an attempt started by an answer that is five seconds old")
		}
	})
}

// Exchanges are one at a time, 50 ms apart, whatever comes.
func TestShareMakesFewExchanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(100)
		m.trip = 3 * ms
		p := m.join(t.Context())
		begin := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, _ = p.call(t.Context(), works) })
			time.Sleep(10 * ms)
		}
		wg.Wait()
		at := p.exchanges(begin)
		for i, d := range at[1:] {
			if d-at[i] < 53*ms {
				t.Errorf("exchanges at %v and %v", at[i], d)
			}
		}
		if len(at) < 15 || len(at) > 20 {
			t.Errorf("%d exchanges in a second", len(at))
		}
	})
}

// First come, first served, whatever the process.
func TestShareIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(10)
		p, q := m.join(t.Context()), m.join(t.Context())
		time.Sleep(time.Second)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 8 {
			who := p
			if i%3 > 0 {
				who = q
			}
			wg.Go(func() {
				_, _ = who.call(t.Context(), func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
					return nil
				})
			})
			time.Sleep(60 * ms) // a bit more than an exchange and the next
		}
		wg.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(order, want) {
			t.Errorf("calls were served in the order %v", order)
		}
	})
}

// Without the store each goes on at its own rate, looks for it every one to three seconds,
// and joins again.
func TestShareWithoutTheStore(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := pacedMeeting(10)
			p := m.join(t.Context())
			time.Sleep(time.Second)
			done := make(chan []time.Duration)
			go func() { done <- micros(p.calls(t.Context(), 100)) }()
			time.Sleep(2500 * ms)
			m.set(func() { m.down, m.hangs = true, hangs })
			away, before := time.Now(), len(p.history())
			time.Sleep(30 * time.Second)
			m.set(func() { m.down, m.hangs = false, false })
			got := <-done
			for i, d := range got {
				if i > 0 && d-got[i-1] > 700*ms { // half a second of the store's, and a turn
					t.Errorf("hangs %v: attempts started after %v and %v", hangs, got[i-1], d)
				}
			}
			time.Sleep(4 * time.Second)
			at := p.exchanges(away)
			last := before
			for i := before + 1; i < len(at) && at[i] < 30*time.Second; i++ {
				gap := at[i] - at[i-1]
				if hangs {
					gap -= 500 * ms
				}
				if gap < time.Second || gap > 3*time.Second {
					t.Errorf("hangs %v: the store was asked at %v and %v", hangs, at[i-1], at[i])
				}
				last = i
			}
			if last < before+8 {
				t.Errorf("hangs %v: exchanges %v after the store is away", hangs, at[before:])
			}
			if back := p.history()[len(p.history())-1]; back.at.Sub(away) < 30*time.Second || back.answer.Epoch == 0 {
				t.Errorf("hangs %v: the last exchange was %+v", hangs, back)
			}
		})
	}
}

// Answers that the law cannot give count as the store being away: nobody waits for them.
func TestShareOfRubbish(t *testing.T) {
	for name, edit := range map[string]func(*fleetpace.Answer){
		"no number":    func(a *fleetpace.Answer) { a.Head = math.NaN() },
		"no rate":      func(a *fleetpace.Answer) { a.Mode, a.Rate, a.Speed = fleetpace.Paced, 0, 0 },
		"infinite":     func(a *fleetpace.Answer) { a.Mode, a.Rate, a.Speed = fleetpace.Paced, 1e300, 1e300 },
		"a long hold":  func(a *fleetpace.Answer) { a.Hold = 1e9 },
		"more turns":   func(a *fleetpace.Answer) { a.Size, a.Tail = a.Size+10, a.Tail+10 },
		"no answer":    func(a *fleetpace.Answer) { *a = fleetpace.Answer{} },
		"another mode": func(a *fleetpace.Answer) { a.Mode = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := pacedMeeting(10)
				p := m.join(t.Context())
				time.Sleep(time.Second)
				p.calls(t.Context(), 20)
				m.set(func() { m.edit = edit })
				got := p.calls(t.Context(), 20)
				if got[19] > 4*time.Second {
					t.Errorf("attempts started after %v", got)
				}
				begin := time.Now()
				time.Sleep(time.Minute)
				if n := len(p.exchanges(begin)); n < 20 || n > 60 {
					t.Errorf("%d exchanges in a minute", n)
				}
			})
		})
	}
}

// Who comes first after the store was emptied brings the rate, and all take new turns. So they
// do if it has come back with what it had earlier.
func TestShareOfAStoreThatHasForgotten(t *testing.T) {
	for name, forget := range map[string]func(*meeting, fleetpace.State){
		"emptied":  func(m *meeting, _ fleetpace.State) { m.lose() },
		"restored": func(m *meeting, old fleetpace.State) { m.set(func() { m.state = old }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := pacedMeeting(10)
				old := m.state
				p, q := m.join(t.Context()), m.join(t.Context())
				time.Sleep(time.Second)
				done := make(chan []time.Duration)
				go func() { done <- p.calls(t.Context(), 100) }()
				go func() { done <- q.calls(t.Context(), 250) }() // which gets numbers that p had
				time.Sleep(5 * time.Second)
				rate := p.pace.Rate()
				forget(m, old)
				all := append(<-done, <-done...)
				slices.Sort(all)
				for i := range all[20:] { // some may come at once: a process hears late that turns were given back
					if d := all[i+20] - all[i]; d < time.Second || d > 4*time.Second { // of about 10/s
						t.Errorf("twenty attempts in %v, from %v on", d, all[i])
						break
					}
				}
				if now := p.pace.Rate(); now < rate*.8 || now > rate*1.5 {
					t.Errorf("the rate is %v, and was %v", now, rate)
				}
			})
		})
	}
}

// Numbers of before are worth nothing in a store that has forgotten, however many it has given since.
func TestShareTakesNewTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(10)
		p := m.join(t.Context())
		time.Sleep(time.Second)
		time.AfterFunc(520*ms, func() {
			m.lose()
			m.set(func() { m.state.Apply(m.now(), .5, fleetpace.Report{Rate: 10, Take: 100, Patience: 1000}) })
		})
		got := p.calls(t.Context(), 20)
		if i, _ := slices.BinarySearch(got, 2*time.Second); got[i] < 10*time.Second {
			t.Errorf("attempts started after %v, want none between 2s and 10s", got)
		}
	})
}

// Hold and hints hold all processes.
func TestShareHoldsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(meeting)
		p, q := m.join(t.Context()), m.join(t.Context())
		p.pace.Rate() // nothing: it is open
		time.Sleep(time.Second)
		p.pace.Hold(5 * time.Second)
		time.Sleep(50 * ms)
		begin := time.Now()
		if d, err := q.call(t.Context(), works); d < 4900*ms || d > 7500*ms || err != nil { // a turn, at the rate at which it has come
			t.Errorf("after Hold in another process: started after %v, %v", d, err)
		}
		if n := len(q.exchanges(begin)); n > 8 {
			t.Errorf("%d exchanges in a hold", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(10)
		p, q := m.join(t.Context()), m.join(t.Context())
		time.Sleep(time.Second)
		later := retry.After(errors.New("429"), 20*time.Second)
		for range 4 {
			go p.call(t.Context(), func(context.Context) error { return later })
		}
		time.Sleep(2 * time.Second)
		if d, err := q.call(t.Context(), works); d < 18*time.Second || d > 50*time.Second || err != nil {
			t.Errorf("after hints of 20 s in another process: started after %v, %v", d, err)
		}
	})
}

// The first throttled attempt of any process makes all count, and then all wait.
func TestShareCountsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(meeting)
		p, q := m.join(t.Context()), m.join(t.Context())
		for _, p := range []*process{p, q} {
			p.policy.MaxAttempts, p.policy.Backoff = 2, retry.Constant(10*ms)
		}
		time.Sleep(time.Second)
		begin := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var retries []time.Duration
		for i := range 40 { // 20/s of each process, of which q's first eight are throttled
			for _, p := range []*process{q, p} {
				fails := p == q && i < 8
				wg.Go(func() {
					_, _ = p.call(t.Context(), func(ctx context.Context) error {
						if fails && retry.AttemptNumber(ctx) == 1 {
							return errBusy
						}
						if retry.AttemptNumber(ctx) == 2 {
							mu.Lock()
							defer mu.Unlock()
							retries = append(retries, time.Since(begin))
						}
						return nil
					})
				})
				time.Sleep(ms)
			}
			time.Sleep(47 * ms)
		}
		wg.Wait()
		var started, hits float64
		for _, e := range append(p.history(), q.history()...) {
			if e.Counted {
				started, hits = started+e.Started, hits+e.Hits
			}
		}
		if started != 42 || hits != 7 { // those of a second but the first, which has begun it, and its retry
			t.Errorf("%v of %v attempts were counted as throttled, want 7 of 42", hits, started)
		}
		a := p.history()[len(p.history())-1].answer
		if a.Mode != fleetpace.Paced || a.Rate < 20 || a.Rate > 45 {
			t.Errorf("%+v, want a rate of about 34", a)
		}
		if slices.Sort(retries); len(retries) != 8 || retries[0] != 10*ms || retries[1] < 1250*ms {
			t.Errorf("retries after %v: all but the first wait until all have counted", retries)
		}
	})
}

// A few throttled attempts may be chance. One alone costs its call its own backoff or hint, as if
// the Pace were not shared. Of more the retries wait until all have counted, but not for longer
// than half of the time that their calls have. First attempts wait for nothing.
func TestShareOfAFewThrottledAttempts(t *testing.T) {
	for _, tt := range []struct {
		throttled   int
		err         error
		timeout     time.Duration
		first, last time.Duration // when the calls end
	}{
		{1, errBusy, 5 * time.Second, 100 * ms, 100 * ms},
		{1, errBusy, 300 * ms, 100 * ms, 100 * ms},
		{1, retry.After(errBusy, 2*time.Second), 10 * time.Second, 2 * time.Second, 2500 * ms},
		{2, errBusy, 5 * time.Second, 1250 * ms, 1350 * ms},
		{3, errBusy, time.Hour, 1250 * ms, 1350 * ms},
		{3, retry.After(errBusy, 2*time.Second), time.Hour, 2 * time.Second, 2500 * ms},
		{3, errBusy, 1100 * ms, 600 * ms, 600 * ms}, // half of what is left after the backoff
	} {
		synctest.Test(t, func(t *testing.T) {
			m := new(meeting)
			p := m.join(t.Context())
			p.policy.MaxAttempts, p.policy.Backoff = 2, retry.Constant(100*ms)
			time.Sleep(time.Minute)
			begin := time.Now()
			var ended []time.Duration
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range tt.throttled {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
					defer cancel()
					if _, err := p.call(ctx, failFirst(tt.err)); err != nil {
						t.Errorf("%+v: %v", tt, err)
					}
					mu.Lock()
					defer mu.Unlock()
					ended = append(ended, time.Since(begin))
				})
			}
			for range 30 {
				time.Sleep(100 * ms)
				if d, err := p.call(t.Context(), works); d != 0 || err != nil {
					t.Errorf("%+v: a first attempt started after %v, %v", tt, d, err)
				}
			}
			wg.Wait()
			if slices.Min(ended) < tt.first || slices.Max(ended) > tt.last {
				t.Errorf("%+v: the calls ended after %v", tt, ended)
			}
			time.Sleep(11 * time.Second)
			before := len(p.history())
			for range 10 {
				_, _ = p.call(t.Context(), works)
				time.Sleep(2 * time.Second)
			}
			if n := len(p.history()) - before; n > 1 {
				t.Errorf("%+v: %d exchanges ten quiet seconds later", tt, n)
			}
		})
	}
}

// News may be lost: who waits exchanges anyway, and then hears it.
func TestShareWithoutNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(.1)
		m.deaf = true
		p := m.join(t.Context())
		time.Sleep(time.Second)
		go p.calls(t.Context(), 10)
		time.Sleep(time.Minute)
		at := p.exchanges(time.Now())
		for i := range at[1:] {
			if d := at[i+1] - at[i]; i > 2 && d > 15*time.Second {
				t.Errorf("exchanges %v apart, at %v", d, at)
			}
		}
	})
}

// A call whose turn would come too late ends with ErrPaced: at once if that is known, or else
// with the answer that says so.
func TestShareOfTheImpatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(1)
		p, q := m.join(t.Context()), m.join(t.Context())
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.calls(ctx, 20)
		time.Sleep(100 * ms)
		begin := time.Now()
		short, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		go q.call(short, works)
		_, err := q.call(short, works)
		if !errors.Is(err, retry.ErrPaced) || time.Since(begin) > 20*ms {
			t.Errorf("a turn in twenty seconds for who has ten: %v after %v", err, time.Since(begin))
		}
		if late, ok := errors.AsType[interface {
			error
			RetryAfter() time.Duration
		}](err); !ok || late.RetryAfter() < 19*time.Second || late.RetryAfter() > 22*time.Second {
			t.Errorf("%v does not tell when to come again", err)
		}
		if tail := q.history()[len(q.history())-1].answer.Tail; tail != 20 {
			t.Errorf("%v turns are taken, want 20", tail)
		}
	})
}

// Calls of a group end with the first that comes too late. None of them has had a turn: there is
// nothing to give back.
func TestShareOfACanceledGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(1)
		m.trip = ms
		p, q := m.join(t.Context()), m.join(t.Context())
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.calls(ctx, 200)
		time.Sleep(100 * ms)
		group, end := context.WithTimeout(t.Context(), 150*time.Second)
		defer end()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := q.call(group, works); err == nil {
					t.Error("a call has had a turn that comes in three minutes")
				}
				end()
			})
		}
		wg.Wait()
		if got := q.calls(t.Context(), 10); got[0] < time.Minute { // the rate grows
			t.Errorf("attempts started after %v, behind two hundred of another process at one in a second", got)
		}
	})
}

// A call that costs twice the average takes two turns, for the other processes too.
func TestShareCountsCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(10)
		p, q := m.join(t.Context()), m.join(t.Context())
		cost := func(c float64) context.Context { return retry.WithCost(t.Context(), c) }
		time.Sleep(time.Second)
		_ = p.calls(cost(100), 20)
		time.Sleep(300 * ms)
		_, _ = q.call(cost(100), works) // now q knows the average
		time.Sleep(300 * ms)
		begin := time.Now()
		go q.calls(cost(1000), 1)
		time.Sleep(60 * ms)
		go q.calls(cost(1000), 1)
		time.Sleep(60 * ms)
		d, err := p.call(cost(100), works)
		if wait := d + time.Since(begin) - d; wait < 1500*ms || wait > 2200*ms || err != nil {
			t.Errorf("behind two calls of ten times the average an attempt started after %v, %v", wait, err)
		}
	})
}

// Turns that nobody needs go back: those of calls that have ended.
func TestShareReturnsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(1)
		p, q := m.join(t.Context()), m.join(t.Context())
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		go p.calls(ctx, 20)
		time.Sleep(time.Second)
		cancel()
		time.Sleep(100 * ms)
		if d, err := q.call(t.Context(), works); d > 6*time.Second || err != nil { // head goes four times as fast
			t.Errorf("behind twenty calls that have ended an attempt started after %v, %v", d, err)
		}
	})
}

// An attempt that a later guard refuses has had its turn. One whose call ends meanwhile has not.
func TestShareBeforeAnotherGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(10)
		p := m.join(t.Context())
		time.Sleep(time.Second)
		refuses := &closedGate{err: errors.New("full")}
		p.policy.Guards = append(p.policy.Guards, refuses)
		begin := time.Now()
		p.calls(t.Context(), 10)
		if d := time.Since(begin).Round(ms); d != 900*ms || refuses.asked != 10 {
			t.Errorf("ten refused attempts took %v, want 900ms; %d were asked", d, refuses.asked)
		}
		if told := p.history()[len(p.history())-1]; told.Started != 0 {
			t.Errorf("%v attempts are told that were not made", told.Started)
		}
	})
}

// An attempt that waits for a later guard gives its turn back if its call ends: the next does not
// wait for another.
func TestShareGivesATurnToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pacedMeeting(.1)
		p := m.join(t.Context())
		time.Sleep(time.Second)
		next := p.policy
		p.policy.Guards = append(p.policy.Guards, slowGate{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*ms, cancel)
		go p.call(ctx, works)
		time.Sleep(100 * ms)
		begin := time.Now()
		if err := retry.Run(t.Context(), next, works); err != nil || time.Since(begin) != 400*ms {
			t.Errorf("%v after %v, want 400ms", err, time.Since(begin))
		}
	})
}

// slowGate is a guard for which all wait.
type slowGate struct{}

func (slowGate) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{Wait: time.Minute}, nil
}

func (slowGate) Leave(retry.Pass, retry.Exit) {}

// closedGate is a guard that refuses.
type closedGate struct {
	err   error
	mu    sync.Mutex
	asked int
}

func (g *closedGate) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	return retry.Pass{}, retry.Stop(g.err)
}

func (g *closedGate) Leave(retry.Pass, retry.Exit) {}

// Real goroutines on the real clock: nothing hangs, and the race detector sees nothing.
func TestShareUnderStress(t *testing.T) {
	m := pacedMeeting(500)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var processes []*process
	for range 3 {
		p := &process{meeting: m, left: make(chan error, 1)}
		p.policy = retry.Policy{Guards: []retry.Guard{&p.pace}, MaxAttempts: 3, Backoff: retry.Constant(ms), MaxElapsed: time.Second}
		go func() { p.left <- p.pace.Share(ctx, p) }()
		processes = append(processes, p)
		for i := range 20 {
			wg.Go(func() {
				for j := range 6 {
					ctx, cancel := context.WithTimeout(ctx, time.Second)
					if (i+j)%7 == 0 {
						time.AfterFunc(3*ms, cancel)
					}
					_, _ = p.call(ctx, func(context.Context) error {
						if (i+j)%5 == 0 {
							return errBusy
						}
						return nil
					})
					_ = p.pace.Rate() + float64(p.pace.Wait())
					cancel()
				}
			})
		}
	}
	for _, change := range []func(){
		func() { m.down = true }, func() { m.down = false }, func() { m.state = fleetpace.State{}; m.lost++ },
	} {
		time.Sleep(100 * ms)
		m.set(change)
		processes[0].pace.Hold(ms)
	}
	wg.Wait()
	cancel()
	for _, p := range processes {
		if err := <-p.left; err != context.Canceled {
			t.Errorf("Share returned %v", err)
		}
	}
}
