package pace_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
)

// provider is a server with a quota, which knows nothing of paces.
type provider struct {
	rate   float64       // requests in a second
	window time.Duration // in which they are counted; 0: a bucket
	slides bool          // any second counts
	bucket float64       // its size, at least 1
	hint   time.Duration // a wait is rounded up to a multiple of it; 0: a refusal has none
	late   time.Duration // that a refusal takes
	took   time.Duration // that an answer takes
	way    time.Duration // that a request takes to the server, at most; at random
	stray  float64       // part of the requests that is refused whatever their number is
	down   bool          // all are
	chance *rand.Rand

	mu              sync.Mutex
	began           time.Time
	left            float64
	at              time.Time
	passed, refused float64
	recent          []time.Time // what passed, if any second counts
}

func (p *provider) call(ctx context.Context) error {
	if p.way > 0 {
		p.mu.Lock()
		way := time.Duration(p.chance.Float64() * float64(p.way))
		p.mu.Unlock()
		if err := clockx.System().Sleep(ctx, way); err != nil {
			return err
		}
	}
	ok, wait := p.admit()
	took := p.took
	if !ok {
		took = p.late
	}
	if err := clockx.System().Sleep(ctx, took); err != nil {
		return err
	}
	switch {
	case ok:
		return nil
	case p.hint == 0:
		return status(429)
	}
	return retry.After(status(429), (wait + p.hint - 1).Truncate(p.hint))
}

// admit counts a request, and says after which wait another may pass if it refuses this one.
func (p *provider) admit() (ok bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.began.IsZero() {
		p.began, p.at, p.left = now, now, max(p.bucket, 1)
		if p.window > 0 {
			p.left = p.rate * p.window.Seconds()
		}
	}
	switch {
	case p.slides:
		for len(p.recent) > 0 && now.Sub(p.recent[0]) >= time.Second {
			p.recent = p.recent[1:]
		}
		if p.left = p.rate - float64(len(p.recent)); p.left < 1 {
			wait = time.Second - now.Sub(p.recent[0])
			break
		}
		p.recent = append(p.recent, now)
	case p.window > 0:
		start := now.Add(-(now.Sub(p.began) % p.window))
		if p.at.Before(start) {
			p.left = math.Round(p.rate * p.window.Seconds())
		}
		wait = p.window - now.Sub(start)
	default:
		p.left = min(p.left+p.rate*now.Sub(p.at).Seconds(), max(p.bucket, 1))
		wait = time.Duration((1 - p.left) / p.rate * 1e9)
	}
	p.at = now
	if p.down || p.stray > 0 && p.chance.Float64() < p.stray {
		p.refused++
		return false, p.hint
	}
	if p.left < 1-1e-6 {
		p.refused++
		return false, wait
	}
	p.left--
	p.passed++
	return true, 0
}

// memory is a Store in this process.
type memory struct {
	took  time.Duration                  // an exchange
	ahead func(at time.Duration) float64 // seconds by which its clock is, after so long; nil: none
	fails func(at time.Duration) error   // nil: never

	mu        sync.Mutex
	began     time.Time
	state     pace.State
	exchanges float64
	news      []chan struct{}
}

func (m *memory) Reserve(ctx context.Context, a pace.Ask) (pace.Slots, error) {
	if err := clockx.System().Sleep(ctx, m.took/2); err != nil {
		return pace.Slots{}, err
	}
	s, err := m.apply(a)
	if err == errSilent {
		<-ctx.Done()
		return pace.Slots{}, context.Cause(ctx)
	}
	if e := clockx.System().Sleep(ctx, m.took/2); e != nil {
		return pace.Slots{}, e
	}
	return s, err
}

var errSilent = errors.New("silent")

func (m *memory) apply(a pace.Ask) (pace.Slots, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.began.IsZero() {
		m.began = now
	}
	if m.fails != nil {
		if err := m.fails(now.Sub(m.began)); err != nil {
			return pace.Slots{}, err
		}
	}
	m.exchanges++
	seconds := float64(now.UnixNano()) / 1e9
	if m.ahead != nil {
		seconds += m.ahead(now.Sub(m.began))
	}
	s, held, err := m.state.Reserve(seconds, a)
	if held {
		for _, c := range m.news {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	return s, err
}

func (m *memory) News(ctx context.Context) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(chan struct{}, 1)
	m.news = append(m.news, c)
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.news = slices.DeleteFunc(m.news, func(other chan struct{}) bool { return other == c })
		close(c)
	})
	return c
}

// forget empties m.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = pace.State{}
}

// offset is a system's clock that is wrong.
type offset struct {
	clockx.Clock
	by time.Duration
}

func (o offset) Now() time.Time { return o.Clock.Now().Add(o.by) }

// fleet is processes whose calls count against one quota.
type fleet struct {
	processes int
	load      float64 // calls in a second, as a part of the quota; 0: none
	closed    int     // calls that each process has underway all the time
	patience  time.Duration
	urgent    float64 // part of the calls that have hurry instead
	hurry     time.Duration
	lasts     time.Duration
	told      float64       // the number that the paces have, as a part of the quota; 0: 1
	alone     bool          // without Share
	open      bool          // without a Quota
	skew      time.Duration // of the processes' clocks, at most
	provider
	store memory
	seed  uint64

	// also is called on a goroutine of its own when all run.
	also func(f *fleet)

	ctx     context.Context
	members []*member
}

// member is a process.
type member struct {
	pace.Pace
	f      *fleet
	chance *rand.Rand
	leave  context.CancelFunc // ends Share
	die    context.CancelFunc // ends its calls
	ctx    context.Context
	op     atomic.Pointer[func(context.Context) error]
	killed atomic.Bool

	mu                    sync.Mutex
	calls, failed, passed float64
	requests, refused     float64
	hurried, late         float64 // urgent calls, and those that have failed
}

func (m *member) policy() retry.Policy {
	m.mu.Lock()
	seed := m.chance.Uint64()
	m.mu.Unlock()
	return retry.Policy{
		MaxAttempts: 5, Guards: []retry.Guard{&m.Pace}, Clock: m.Clock, MaxRetryAfter: 2 * time.Minute,
		Rand: rand.New(rand.NewPCG(seed, 1)).Float64,
	}
}

// call makes a call with a patience.
func (m *member) call(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(m.ctx, patience)
	defer cancel()
	err := retry.Run(ctx, m.policy(), func(ctx context.Context) error {
		err := (*m.op.Load())(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.requests++
		if retry.DefaultClassifier(err) == retry.Throttled {
			m.refused++
		}
		return err
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if err != nil {
		m.failed++
	} else {
		m.passed++
	}
	return err
}

// hurry makes an urgent call.
func (m *member) hurry() {
	err := m.call(m.f.hurry)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hurried++
	if err != nil {
		m.late++
	}
}

// offer makes calls at random times, or one after the other.
func (m *member) offer() {
	f := m.f
	for range f.closed {
		go func() {
			for m.ctx.Err() == nil {
				_ = m.call(f.patience)
				time.Sleep(time.Millisecond)
			}
		}()
	}
	if f.load == 0 {
		return
	}
	gap := float64(f.processes) / (f.load * f.rate) * 1e9
	for m.ctx.Err() == nil {
		m.mu.Lock()
		d := time.Duration(m.chance.ExpFloat64() * gap)
		m.mu.Unlock()
		m.mu.Lock()
		urgent := f.urgent > 0 && m.chance.Float64() < f.urgent
		m.mu.Unlock()
		switch {
		case clockx.System().Sleep(m.ctx, d) != nil:
		case urgent:
			go m.hurry()
		default:
			go m.call(f.patience)
		}
	}
}

// figures are what became of a fleet, without its first five seconds.
type figures struct {
	wasted    float64 // part of the requests
	goodput   float64 // what passed, as a part of what could
	failed    float64 // part of the calls
	exchanges float64 // for each request
	jain      float64
	urgent    float64 // part of the urgent calls that have not failed
}

func (x figures) String() string {
	return fmt.Sprintf("wasted %.1f %%, goodput %.1f %%, failed %.1f %%, %.2f exchanges, Jain %.2f", 100*x.wasted, 100*x.goodput, 100*x.failed, x.exchanges, x.jain)
}

const warm = 5 * time.Second

func (f *fleet) run(t *testing.T) (x figures) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var end context.CancelFunc
		f.ctx, end = context.WithCancel(t.Context())
		f.provider.chance = rand.New(rand.NewPCG(f.seed, 1<<32))
		if f.patience == 0 {
			f.patience = 30 * time.Second
		}
		if f.lasts == 0 {
			f.lasts = time.Minute
		}
		if f.took == 0 {
			f.took = 200 * time.Millisecond
		}
		if f.late == 0 {
			f.late = 50 * time.Millisecond
		}
		for i := range f.processes {
			f.members = append(f.members, f.start(i))
		}
		for _, m := range f.members {
			go m.offer()
		}
		if f.also != nil {
			go f.also(f)
		}
		time.Sleep(warm)
		began := f.count(f.members)
		time.Sleep(f.lasts)
		x = f.count(f.members).since(began, f)
		end()
		synctest.Wait()
		time.Sleep(2 * time.Minute)
	})
	return x
}

func (f *fleet) start(i int) *member {
	m := &member{f: f, chance: rand.New(rand.NewPCG(f.seed, uint64(i)))}
	m.serve(f.provider.call)
	told := f.told
	if told == 0 {
		told = 1
	}
	if !f.open {
		m.Quota, m.Burst = told*f.rate, 1
	}
	if f.skew > 0 {
		m.Clock = offset{clockx.System(), time.Duration((2*m.chance.Float64() - 1) * float64(f.skew))}
	}
	m.ctx, m.die = context.WithCancel(f.ctx)
	var share context.Context
	share, m.leave = context.WithCancel(m.ctx)
	if !f.alone {
		go m.Share(share, mortal{&f.store, m})
	}
	return m
}

// mortal is the store of a process that may be killed: then it gives nothing back.
type mortal struct {
	*memory
	m *member
}

func (s mortal) Reserve(ctx context.Context, a pace.Ask) (pace.Slots, error) {
	if s.m.killed.Load() {
		return pace.Slots{}, errSilent
	}
	return s.memory.Reserve(ctx, a)
}

// serve makes op what m's calls do.
func (m *member) serve(op func(context.Context) error) { m.op.Store(&op) }

// backlog makes m have n more calls at once.
func (m *member) backlog(n int, patience time.Duration) {
	for range n {
		go m.call(patience)
	}
}

// others returns the figures of all but the first member from now on for so long.
func (f *fleet) others(d time.Duration) (x figures) {
	b := f.count(f.members[1:])
	time.Sleep(d)
	return f.count(f.members[1:]).since(b, f)
}

// counts are sums.
type counts struct {
	at                                        time.Time
	passed, refused, calls, failed, exchanges float64
	hurried, late                             float64
	each                                      []float64
}

func (f *fleet) count(members []*member) (c counts) {
	c.at = time.Now()
	f.provider.mu.Lock()
	c.passed, c.refused = f.passed, f.refused
	f.provider.mu.Unlock()
	f.store.mu.Lock()
	c.exchanges = f.store.exchanges
	f.store.mu.Unlock()
	for _, m := range members {
		m.mu.Lock()
		c.calls += m.calls
		c.failed += m.failed
		c.hurried += m.hurried
		c.late += m.late
		c.each = append(c.each, m.passed)
		m.mu.Unlock()
	}
	return c
}

func (c counts) since(b counts, f *fleet) (x figures) {
	seconds := c.at.Sub(b.at).Seconds()
	passed, refused := c.passed-b.passed, c.refused-b.refused
	could := f.rate * seconds
	if f.closed == 0 && f.load < 1 {
		could = c.calls - b.calls
	}
	x.wasted = refused / max(passed+refused, 1)
	x.goodput = passed / could
	x.failed = (c.failed - b.failed) / max(c.calls-b.calls, 1)
	x.urgent = 1 - (c.late-b.late)/max(c.hurried-b.hurried, 1)
	x.exchanges = (c.exchanges - b.exchanges) / max(passed+refused, 1)
	var sum, squares float64
	for i := range c.each {
		n := c.each[i]
		if i < len(b.each) {
			n -= b.each[i]
		}
		sum += n
		squares += n * n
	}
	x.jain = sum * sum / (float64(len(c.each)) * squares)
	return x
}

// Whatever the server's hints are and however many calls there are, nothing is wasted, and the quota
// is used.
func TestAToldQuota(t *testing.T) {
	sizes, seeds, lasts := []int{1, 12}, uint64(1), 30*time.Second
	if longTests {
		sizes, seeds, lasts = []int{1, 12, 50, 200}, 8, time.Minute
	}
	for seed := range seeds {
		for _, n := range sizes {
			for _, load := range []float64{.5, 1.5, 3} {
				for _, hint := range []time.Duration{time.Second, time.Nanosecond, 0} {
					f := fleet{processes: n, load: load, lasts: lasts, provider: provider{rate: 25, bucket: 5, hint: hint}, store: memory{took: 2 * time.Millisecond}, seed: seed}
					x := f.run(t)
					name := fmt.Sprintf("seed %d, %d processes, load %v, hint %v", seed, n, load, hint)
					x.want(t, name, .01, .95, 2.2)
					if load > 1 && x.jain < .92 || load < 1 && x.failed > 0 {
						t.Errorf("%s: %v", name, x)
					}
				}
			}
		}
	}
}

// want reports an error if more is wasted, less passes, or there are more exchanges.
func (x figures) want(t *testing.T, name string, wasted, goodput, exchanges float64) {
	t.Helper()
	if x.wasted > wasted || x.goodput < goodput || x.exchanges > exchanges {
		t.Errorf("%s: %v", name, x)
	}
	if testing.Verbose() {
		t.Logf("%s: %v", name, x)
	}
}

// shapes are fleets of which nothing is special but one thing.
func TestShapesOfAToldQuota(t *testing.T) {
	const ms = time.Millisecond
	shapes := map[string]struct {
		edit              func(*fleet)
		wasted, goodput   float64
		exchanges, failed float64
		long              bool
	}{
		"a refusal takes .3 s":                           {func(f *fleet) { f.late = 300 * ms }, .01, .97, 2.2, 1, false},
		"a refusal takes 1.1 s":                          {func(f *fleet) { f.late = 1100 * ms }, .01, .97, 2.2, 1, true},
		"a refusal takes 5 s":                            {func(f *fleet) { f.late = 5 * time.Second }, .01, .97, 2.2, 1, true},
		"a window of a second":                           {func(f *fleet) { f.window = time.Second }, .01, .97, 2.2, 1, false},
		"a window of a minute":                           {func(f *fleet) { f.window = time.Minute; f.lasts = 3 * time.Minute }, .01, .97, 2.2, 1, true},
		"a bucket of one":                                {func(f *fleet) { f.bucket = 1 }, .4, .6, 2.2, 1, false},
		"a bucket of one, and 5 % less":                  {func(f *fleet) { f.bucket, f.told = 1, .95 }, .01, .93, 2.2, 1, false},
		"a sliding second":                               {func(f *fleet) { f.slides = true }, .06, .93, 2.2, 1, false},
		"a sliding second, and 5 % less":                 {func(f *fleet) { f.slides, f.told = true, .95 }, .01, .93, 2.2, 1, false},
		"a bucket of one, 5 % less, ways of 0 to 5 ms":   {func(f *fleet) { f.bucket, f.told, f.way = 1, .95, 5*ms }, .2, .75, 2.2, 1, false},
		"a bucket of one, 5 % less, ways of 0 to 30 ms":  {func(f *fleet) { f.bucket, f.told, f.way = 1, .95, 30*ms }, .37, .6, 2.2, 1, true},
		"a bucket of two, ways of 0 to 30 ms":            {func(f *fleet) { f.bucket, f.way = 2, 30*ms }, .01, .97, 2.2, 1, false},
		"a sliding second, 5 % less, ways of 0 to 30 ms": {func(f *fleet) { f.slides, f.told, f.way = true, .95, 30*ms }, .01, .93, 2.2, 1, true},
		"1000 of them":                                   {func(f *fleet) { f.processes = 1000 }, .01, .97, 2.3, 1, true},
		"1000 of them at 3 times":                        {func(f *fleet) { f.processes, f.load = 1000, 3 }, .01, .97, 3.2, 1, true},
		"2.5 in a second":                                {func(f *fleet) { f.rate = 2.5; f.lasts = 5 * time.Minute }, .01, .97, 4, 1, false},
		"100 in a second":                                {func(f *fleet) { f.rate = 100 }, .01, .97, 2.2, 1, false},
		"2000 in a second":                               {func(f *fleet) { f.rate = 2000; f.bucket = 50; f.lasts = 10 * time.Second }, .01, .97, 2.2, 1, true},
		"20 000 in a second":                             {func(f *fleet) { f.rate = 20000; f.bucket = 500; f.lasts = 5 * time.Second }, .01, .97, 2.2, 1, true},
		"1000 processes":                                 {func(f *fleet) { f.processes, f.rate, f.bucket = 1000, 100, 20 }, .01, .97, 2.2, 1, true},
		"200 at half of it":                              {func(f *fleet) { f.processes, f.load = 200, .5 }, .01, .97, 2.2, 0, true},
		"a store of 100 ms":                              {func(f *fleet) { f.store.took = 100 * ms }, .01, .97, 2.2, 1, false},
		"closed loops":                                   {func(f *fleet) { f.closed, f.load = 20, 0 }, .01, .97, 2.2, 1, false},
		"clocks of 20 s":                                 {func(f *fleet) { f.skew = 20 * time.Second }, .01, .97, 2.2, 1, false},
		"the number is 1.2 of it":                        {func(f *fleet) { f.told = 1.2 }, .18, .94, 2.5, 1, false},
		"the number is 2 of it":                          {func(f *fleet) { f.told = 2 }, .51, .95, 2.5, 1, false},
		"the number is .8 of it":                         {func(f *fleet) { f.told = .8 }, .01, .78, 2.2, 1, false},
		"an emptied store": {func(f *fleet) {
			f.also = func(f *fleet) { time.Sleep(30 * time.Second); f.store.forget() }
		}, .01, .97, 2.2, 1, false},
		"the store's clock goes back by 20 s": {func(f *fleet) {
			f.store.ahead = func(at time.Duration) float64 { return -20 * math.Floor(min(at.Seconds()/20, 1)) }
		}, .01, .97, 2.2, 1, false},
		"the store's clock goes back by 50 s": {func(f *fleet) {
			f.store.ahead = func(at time.Duration) float64 { return -50 * math.Floor(min(at.Seconds()/20, 1)) }
		}, .01, .97, 2.2, 1, false},
		"the store's clock goes back by 4 s": {func(f *fleet) {
			f.store.ahead = func(at time.Duration) float64 { return -4 * math.Floor(min(at.Seconds()/20, 1)) }
		}, .01, .92, 2.2, 1, false},
		"the store's clock jumps by 61 s": {func(f *fleet) {
			f.store.ahead = func(at time.Duration) float64 { return 61 * math.Floor(min(at.Seconds()/20, 1)) }
		}, .01, .97, 2.2, 1, false},
		"one exchange of 600 ms": {func(f *fleet) {
			var slow atomic.Bool
			f.store.fails = func(at time.Duration) error {
				if at > 20*time.Second && slow.CompareAndSwap(false, true) {
					return errSilent
				}
				return nil
			}
		}, .01, .97, 2.2, 1, false},
		"a store that is away for 30 s": {func(f *fleet) {
			f.store.fails = func(at time.Duration) error {
				if at > 20*time.Second && at < 50*time.Second {
					return errSilent
				}
				return nil
			}
		}, .05, .95, 2.2, 1, false},
		"a store that is away from the start": {func(f *fleet) {
			f.store.fails = func(at time.Duration) error { return errSilent }
		}, .2, .4, 2.2, 1, false},
		"a store that is there for 2 s of 4": {func(f *fleet) {
			f.store.fails = func(at time.Duration) error {
				if at%(4*time.Second) < 2*time.Second {
					return errSilent
				}
				return nil
			}
		}, .2, .85, 2.2, 1, false},
	}
	seeds := uint64(1)
	if longTests {
		seeds = 8
	}
	for name, shape := range shapes {
		if shape.long && !longTests {
			continue
		}
		for seed := range seeds {
			f := &fleet{processes: 12, load: 1.5, provider: provider{rate: 25, bucket: 5, hint: time.Second}, store: memory{took: 2 * ms}, seed: seed}
			shape.edit(f)
			x := f.run(t)
			x.want(t, fmt.Sprintf("%s, seed %d", name, seed), shape.wasted, shape.goodput, shape.exchanges)
			if x.failed > shape.failed {
				t.Errorf("%s, seed %d: %v", name, seed, x)
			}
		}
	}
}

// What happens to one process takes little from the others.
func TestOneOfAFleet(t *testing.T) {
	seeds, sizes := uint64(1), []int{12}
	if longTests {
		seeds, sizes = 8, []int{12, 20, 50}
	}
	backlog := func(n int, after func(m *member)) func(*fleet, func(*fleet, figures)) {
		return func(f *fleet, judge func(*fleet, figures)) {
			time.Sleep(warm)
			f.members[0].backlog(n, 10*time.Minute)
			time.Sleep(5 * time.Second)
			after(f.members[0])
			judge(f, f.others(10*time.Second))
		}
	}
	stops := func(f *fleet, x figures) bool { return x.goodput < .9 || x.wasted > .01 } // ten seconds later
	fails := func(f *fleet, x figures) bool { return x.failed > .05 }
	for name, c := range map[string]struct {
		load float64
		also func(*fleet, func(*fleet, figures))
		bad  func(*fleet, figures) bool
	}{
		"killed with 1000 waiting": {1.5, backlog(1000, func(m *member) { m.killed.Store(true); m.leave(); m.die() }), stops},
		"ends with 1000 waiting":   {1.5, backlog(1000, func(m *member) { m.die(); time.Sleep(time.Millisecond); m.leave() }), stops},
		"cancels 1000":             {1.5, backlog(1000, func(m *member) { m.die() }), stops},
		"has 1000":                 {.5, backlog(1000, func(m *member) {}), fails},
		"has 10 000":               {.5, backlog(10_000, func(m *member) {}), fails},
		"gets only 429s": {.5, func(f *fleet, judge func(*fleet, figures)) {
			f.members[0].serve(func(ctx context.Context) error {
				_ = f.provider.call(ctx)
				return retry.After(status(429), 20*time.Second)
			})
			time.Sleep(warm)
			judge(f, f.others(time.Minute))
		}, fails},
		"gets only 429s, and has 1000": {.5, func(f *fleet, judge func(*fleet, figures)) {
			f.members[0].serve(func(ctx context.Context) error { return retry.After(status(429), time.Second) })
			backlog(1000, func(*member) {})(f, judge)
		}, fails},
	} {
		for seed := range seeds {
			for _, n := range sizes {
				judged := false
				f := &fleet{processes: n, load: c.load, lasts: 2 * time.Minute, provider: provider{rate: 25, bucket: 5, hint: time.Second}, store: memory{took: 2 * time.Millisecond}, seed: seed}
				f.also = func(f *fleet) {
					c.also(f, func(f *fleet, x figures) {
						judged = true
						if c.bad(f, x) {
							t.Errorf("one of %d %s, seed %d: of the others %v", n, name, seed, x)
						} else if testing.Verbose() {
							t.Logf("one of %d %s, seed %d: of the others %v", n, name, seed, x)
						}
					})
				}
				f.run(t)
				if !judged {
					t.Errorf("%s: not judged", name)
				}
			}
		}
	}
}
