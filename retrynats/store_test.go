package retrynats_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go/jetstream"
)

// bucket is a key-value bucket of which a test sees each call. It has no Create, whose
// parameters differ with the version of nats.go: servertest/nats tests that.
type bucket struct {
	jetstream.KeyValue
	mu       sync.Mutex
	entries  map[string]*fakeEntry
	calls    []string
	fail     func(call string) error // nil: nothing fails
	revision uint64
	ahead    time.Duration // of the server's clock
	watchers []chan jetstream.KeyValueEntry
	ttl      time.Duration
}

func (b *bucket) Status(context.Context) (jetstream.KeyValueStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return config{ttl: b.ttl}, b.called("status", "")
}

type config struct {
	jetstream.KeyValueStatus
	ttl time.Duration
}

func (c config) TTL() time.Duration { return c.ttl }

// known returns a bucket with the State of a quota whose slots have all been free for long.
func known() *bucket {
	return with(`{"tat":0,"at":0,"moved":0,"until":0,"passed":0,"ahead":0,"free":0,"freed":0}`)
}

func with(text string) *bucket {
	return &bucket{entries: map[string]*fakeEntry{"k": {value: []byte(text), revision: 1, created: time.Now()}}, revision: 1}
}

type fakeEntry struct {
	jetstream.KeyValueEntry
	value    []byte
	revision uint64
	created  time.Time // by the server's clock
}

func (e *fakeEntry) Value() []byte      { return e.value }
func (e *fakeEntry) Revision() uint64   { return e.revision }
func (e *fakeEntry) Created() time.Time { return e.created }

func (b *bucket) called(call, key string) error {
	b.calls = append(b.calls, call+" "+key)
	if b.fail != nil {
		return b.fail(call)
	}
	return nil
}

func (b *bucket) Get(_ context.Context, key string) (jetstream.KeyValueEntry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.called("get", key); err != nil {
		return nil, err
	}
	if e, ok := b.entries[key]; ok {
		return e, nil
	}
	panic("no test deletes it")
}

func (b *bucket) Update(_ context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.write("update", key, value, func(e *fakeEntry) bool { return e != nil && e.revision == revision })
}

func (b *bucket) Put(_ context.Context, key string, value []byte) (uint64, error) {
	return b.write("put", key, value, func(*fakeEntry) bool { return true })
}

func (b *bucket) write(call, key string, value []byte, expected func(*fakeEntry) bool) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.called(call, key); err != nil {
		return 0, err
	}
	if !expected(b.entries[key]) {
		return 0, jetstream.ErrKeyExists
	}
	b.revision++
	b.entries[key] = &fakeEntry{value: value, revision: b.revision, created: time.Now().Add(b.ahead)}
	return b.revision, nil
}

type fakeWatcher struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
	stop    func()
}

func (w *fakeWatcher) Updates() <-chan jetstream.KeyValueEntry { return w.updates }
func (w *fakeWatcher) Stop() error                             { w.stop(); return nil }

func (b *bucket) Watch(_ context.Context, key string, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(opts) != 1 {
		return nil, errors.New("want updates only")
	}
	if err := b.called("watch", key); err != nil {
		return nil, err
	}
	updates := make(chan jetstream.KeyValueEntry)
	b.watchers = append(b.watchers, updates)
	return &fakeWatcher{updates: updates, stop: func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, "stop "+key)
	}}, nil
}

// want fails t unless the calls since the last time are these.
func (b *bucket) want(t *testing.T, calls ...string) {
	t.Helper()
	if got, want := strings.Join(b.calls, ", "), strings.Join(calls, ", "); got != want {
		t.Errorf("it made %q, want %q", got, want)
	}
	b.calls = nil
}

// five is of five slots a second.
func five(want float64) pace.Ask {
	return pace.Ask{Rate: 5, Burst: 1, Want: want, Least: min(want, 1), Patience: 60}
}

func reserve(t *testing.T, s *retrynats.Store, a pace.Ask) pace.Slots {
	t.Helper()
	got, err := s.Reserve(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestStoreThatIsNotSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []*retrynats.Store{{Key: "k"}, {KV: &bucket{}}} {
			if got, err := s.Reserve(t.Context(), five(1)); err == nil {
				t.Errorf("%+v", got)
			}
			select {
			case <-s.News(t.Context()):
				t.Error("news of nothing")
			default:
			}
		}
	})
}

// Processes whose clocks differ get the slots of one quota: the server's clock counts.
func TestReserveAppliesTheLaw(t *testing.T) {
	for _, ahead := range []time.Duration{0, -time.Hour, 61 * time.Second, -20 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := known()
			b.ahead = ahead
			b.entries["k"].created = time.Now().Add(ahead)
			s, other := &retrynats.Store{KV: b, Key: "k"}, &retrynats.Store{KV: b, Key: "k"}
			first := reserve(t, s, five(1))
			if first.N != 1 || math.Abs(first.Wait) > 1e-3 {
				t.Fatalf("%+v", first)
			}
			b.want(t, "get k", "update k", "get k") // the last time to know the server's clock
			for i := range 4 {
				want := .2 * float64(i+1)
				if got := reserve(t, []*retrynats.Store{other, s}[i%2], five(1)); got.N != 1 || math.Abs(got.Wait-want) > 1e-3 {
					t.Errorf("clock %v ahead, slot %d: %+v, want it in %v s", ahead, i, got, want)
				}
			}
			b.calls = nil
			time.Sleep(500 * ms)
			if got := reserve(t, s, five(1)); math.Abs(got.Wait-.5) > 1e-3 || got.N != 1 {
				t.Errorf("clock %v ahead: %+v half a second later, want one in .5 s", ahead, got)
			}
			b.want(t, "get k", "update k")
			a := five(0)
			a.Hold = 2
			if got := reserve(t, other, a); math.Abs(got.Moved-first.Moved-2) > 1e-3 {
				t.Errorf("%+v after a hold", got)
			}
			b.want(t, "get k", "update k", "put k.news")
		})
	}
}

// A process that comes late, when the last entry is old, learns the clock at once.
func TestTheClockOfALateProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := known()
		b.ahead = 10 * time.Second
		reserve(t, &retrynats.Store{KV: b, Key: "k"}, five(1))
		time.Sleep(time.Minute)
		s := &retrynats.Store{KV: b, Key: "k"}
		for i := range 3 {
			if got := reserve(t, s, five(1)); got.N != 1 || got.Wait > .2 {
				t.Errorf("%d: %+v", i, got)
			}
			time.Sleep(200 * ms)
		}
	})
}

// An entry of another process that is old says nothing new to a process that knows the clock.
func TestAnOldEntrySaysNothingOfTheClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute, -30 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := known()
			b.ahead = ahead
			b.entries["k"].created = time.Now().Add(ahead)
			s, other := &retrynats.Store{KV: b, Key: "k"}, &retrynats.Store{KV: b, Key: "k"}
			reserve(t, s, five(1))
			reserve(t, other, five(1))
			time.Sleep(50 * time.Second)
			if got := reserve(t, s, five(1)); got.N != 1 || got.Wait > 0 {
				t.Errorf("clock %v ahead: %+v, want a slot at once", ahead, got)
			}
			state := stored(b.entries["k"].value)
			// It thinks the server's clock to be a little behind, by what clocks go apart in 50 seconds.
			if late := unix() + ahead.Seconds() - state["at"]; late < .004 || late > .006 {
				t.Errorf("clock %v ahead: the time of the server is taken for %v s less", ahead, late)
			}
		})
	}
}

// The server's clock is put back: after a minute at most all processes follow it.
func TestTheServersClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := known()
		s, other := &retrynats.Store{KV: b, Key: "k"}, &retrynats.Store{KV: b, Key: "k"}
		reserve(t, s, five(1))
		reserve(t, other, five(1))
		b.ahead = -30 * time.Second
		given, a := 0., five(1)
		a.Patience = .5
		for range 10 * 120 {
			time.Sleep(50 * ms)
			given += reserve(t, s, a).N
			time.Sleep(50 * ms)
			given += reserve(t, other, a).N
		}
		if given > 5*120+5 || given < 5*110 {
			t.Errorf("%v slots in two minutes of five a second", given)
		}
	})
}

// A bucket that is made anew counts revisions from 1 again, as after the restart of a single server with
// MemoryStorage. An entry of another process there is none of this process, whatever its revision.
func TestABucketThatIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := known()
		s, other := &retrynats.Store{KV: b, Key: "k"}, &retrynats.Store{KV: b, Key: "k"}
		reserve(t, s, five(1)) // revision 2
		time.Sleep(time.Hour)
		b.entries, b.revision = known().entries, 1
		reserve(t, other, five(1)) // revision 2
		given, a := 0., five(1)
		a.Patience = .5
		for range 10 * 50 {
			for _, s := range []*retrynats.Store{s, other} {
				time.Sleep(50 * ms)
				given += reserve(t, s, a).N
			}
		}
		if given > 5*50+5 {
			t.Errorf("%v slots in 50 seconds of five a second", given)
		}
	})
}

// So does one that comes later: all take the same time for the server's.
func TestTheServersClockIsSetBeforeAnotherProcessComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := known()
		processes := []*retrynats.Store{{KV: b, Key: "k"}, {KV: b, Key: "k"}}
		reserve(t, processes[0], five(1))
		reserve(t, processes[1], five(1))
		b.ahead = -30 * time.Second
		given, a := 0., five(1)
		a.Patience = .5
		for i := range 1800 {
			if i == 1200 {
				processes, given = append(processes, &retrynats.Store{KV: b, Key: "k"}), 0
			}
			time.Sleep(100 * ms)
			given += reserve(t, processes[i%len(processes)], a).N
		}
		if given > 5*60+5 || given < 5*55 {
			t.Errorf("%v slots in a minute of five a second", given)
		}
	})
}

// skewed is a bucket as a process sees it whose clock is ahead of all others: for it the server and
// what the others have written are behind.
type skewed struct {
	*bucket
	by float64 // seconds
}

// shift moves all times of a State.
func shift(text []byte, by float64) []byte {
	s := stored(text)
	for name, by := range map[string]float64{"tat": by, "at": by, "moved": -by, "until": by} {
		s[name] += by
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return text
}

// stored returns the numbers of a State.
func stored(text []byte) (numbers map[string]float64) {
	if err := json.Unmarshal(text, &numbers); err != nil {
		panic(err)
	}
	return numbers
}

func (b skewed) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	got, err := b.bucket.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	e := *got.(*fakeEntry)
	e.value, e.created = shift(e.value, -b.by), e.created.Add(-time.Duration(b.by*1e9))
	return &e, nil
}

func (b skewed) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.bucket.Update(ctx, key, shift(value, b.by), revision)
}

type tooMany struct{}

func (tooMany) Error() string   { return "status 429" }
func (tooMany) StatusCode() int { return 429 }

// One process of 200 has a clock that is ahead, or behind. It may be the first, and then it has
// written its own time into the entry: nobody knew the server's.
func TestOneClockOfManyIsWrong(t *testing.T) {
	const processes, rate, seconds = 200, 25, 30
	const gap = 2 * processes * time.Second / (3 * rate) // between two calls of a process
	for _, by := range []float64{4, 10, 61, -61} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			first, _ := json.Marshal(new(pace.State))
			numbers := stored(first)
			numbers["tat"], numbers["at"], numbers["moved"] = unix()+by-1, unix()+by, -unix()-by
			first, _ = json.Marshal(numbers)
			b := with(string(first))
			left, at, passed, refused := 5., time.Now(), 0., 0.
			request := func(context.Context) error { // to a server with a bucket of five
				now := time.Now()
				left, at = min(5, left+rate*now.Sub(at).Seconds()), now
				if left < 1-1e-6 {
					refused++
					return tooMany{}
				}
				left--
				passed++
				return nil
			}
			var mu sync.Mutex
			for i := range processes {
				var kv jetstream.KeyValue = b
				if i == 0 {
					kv = skewed{b, by}
				}
				model := &pace.Pace{Quota: rate}
				go model.Share(ctx, &retrynats.Store{KV: kv, Key: "k"})
				policy := retry.Policy{MaxElapsed: 20 * time.Second, Guards: []retry.Guard{model}}
				go func() {
					for time.Sleep(time.Duration(i) * gap / processes); ctx.Err() == nil; time.Sleep(gap) {
						go retry.Run(ctx, policy, func(ctx context.Context) error {
							mu.Lock()
							defer mu.Unlock()
							return request(ctx)
						})
					}
				}()
			}
			time.Sleep(seconds * time.Second)
			cancel()
			time.Sleep(gap) // until all have ended
			mu.Lock()
			defer mu.Unlock()
			lost := 0. // seconds for which a clock that is set back a little stands still
			if by > 0 && by < 5 {
				lost = by
			}
			if refused > .01*passed || passed < .99*rate*(seconds-lost) {
				t.Errorf("one clock %v s ahead: %v requests pass, %v are refused", by, passed, refused)
			}
		})
	}
}

func unix() float64 { return float64(time.Now().UnixNano()) / 1e9 }

func TestConflictIsTriedAgain(t *testing.T) {
	for name, code := range map[string]jetstream.ErrorCode{"of one server": 10071, "of a cluster": 10164} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := known()
				s := &retrynats.Store{KV: b, Key: "k"}
				reserve(t, s, five(1))
				b.calls = nil
				b.fail = func(call string) error {
					if call == "get" {
						return nil
					}
					b.fail = nil
					return &jetstream.APIError{Code: 400, ErrorCode: code}
				}
				start := time.Now()
				if got := reserve(t, s, five(1)); got.N != 1 || math.Abs(got.Wait-.2) > .003 {
					t.Errorf("%+v, want the slot after the first", got)
				}
				if d := time.Since(start); d > 2*ms {
					t.Errorf("tried again after %v, want 2ms at most", d)
				}
				b.want(t, "get k", "update k", "get k", "update k")
			})
		})
	}
}

func TestConflictsEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := known()
		b.fail = func(call string) error {
			if call == "update" {
				return jetstream.ErrKeyExists
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
		defer cancel()
		start := time.Now()
		got, err := (&retrynats.Store{KV: b, Key: "k"}).Reserve(ctx, five(1))
		if !errors.Is(err, jetstream.ErrKeyExists) || got != (pace.Slots{}) {
			t.Errorf("%+v, %v", got, err)
		}
		if d := time.Since(start); d > 500*ms || d < 400*ms || len(b.calls) < 20 {
			t.Errorf("%d calls in %v, want those of half a second", len(b.calls), d)
		}
	})
}

// After any other error the server may have done it.
func TestOtherErrorsAreNotTriedAgain(t *testing.T) {
	for _, down := range []error{errDown, jetstream.ErrStreamNotFound, context.DeadlineExceeded} {
		for call, calls := range map[string][]string{"get": {"get k"}, "update": {"get k", "update k"}} {
			b := known()
			b.fail = func(c string) error {
				if c == call {
					return down
				}
				return nil
			}
			got, err := (&retrynats.Store{KV: b, Key: "k"}).Reserve(t.Context(), five(1))
			if !errors.Is(err, down) || got != (pace.Slots{}) {
				t.Errorf("%s: %+v, %v", call, got, err)
			}
			b.want(t, calls...)
		}
	}
}

func TestEntryWithAnotherValueIsAnErrorAndStays(t *testing.T) {
	for _, text := range []string{"", "x", "{}", "null", "[]", `{"tat":1,"at":1,"moved":0}`} {
		b := with(text)
		s := &retrynats.Store{KV: b, Key: "k"}
		for range 2 {
			if got, err := s.Reserve(t.Context(), five(1)); err == nil || got != (pace.Slots{}) {
				t.Errorf("%q: %+v, %v", text, got, err)
			}
			b.want(t, "get k")
		}
	}
}

// A bucket that forgets the quota before all of it is free again is of no use, and the error says what to set.
func TestABucketThatForgets(t *testing.T) {
	day := pace.Ask{Rate: 10. / 86400, Burst: 1, Want: 1, Least: 1}
	for ttl, want := range map[time.Duration]string{0: "", 3 * time.Hour: "", 10 * time.Minute: "retrynats: the bucket forgets the quota after 10m0s: set its TTL to 2h24m0s or more, or to none"} {
		b := known()
		b.ttl = ttl
		s := &retrynats.Store{KV: b, Key: "k"}
		for i := range 2 {
			_, err := s.Reserve(t.Context(), day)
			if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
				t.Errorf("after %v: %v, want %q", ttl, err, want)
			}
			calls := []string{"get k", "status ", "update k", "get k"}
			if want != "" {
				calls = calls[:2]
			}
			if i > 0 { // it knows the bucket, and the clock
				calls = []string{"get k", "update k"}
			}
			if i > 0 && want != "" {
				calls = calls[:1]
			}
			b.want(t, calls...)
		}
		if _, err := s.Reserve(t.Context(), five(0)); err != nil { // one that is forgotten sooner
			t.Errorf("after %v: %v", ttl, err)
		}
	}
	b := known()
	b.fail = func(call string) error {
		if call == "status" {
			return errDown
		}
		return nil
	}
	if _, err := (&retrynats.Store{KV: b, Key: "k"}).Reserve(t.Context(), day); !errors.Is(err, errDown) {
		t.Errorf("a bucket of which nothing is known: %v", err)
	}
}

// An Ask that makes no sense is written nowhere.
func TestAsksThatMakeNoSense(t *testing.T) {
	b := known()
	for _, x := range []float64{-1, math.NaN(), math.Inf(1)} {
		if got, err := (&retrynats.Store{KV: b, Key: "k"}).Reserve(t.Context(), five(x)); err == nil {
			t.Errorf("%v: %+v", x, got)
		}
		b.want(t, "get k")
	}
}

// What was reserved counts, though nobody hears of it.
func TestNewsThatCannotBeTold(t *testing.T) {
	b := known()
	b.fail = func(call string) error {
		if call == "put" {
			return errDown
		}
		return nil
	}
	s := &retrynats.Store{KV: b, Key: "k"}
	before, a := reserve(t, s, five(1)), five(1)
	a.Hold = 1
	if got := reserve(t, s, a); math.Abs(got.Moved-before.Moved-1) > .1 {
		t.Errorf("%+v after %+v", got, before)
	}
}

func TestManyAtOnceGetEachSlotOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := known()
		var mu sync.Mutex
		var at []time.Duration
		begin := time.Now()
		var wg sync.WaitGroup
		for range 8 {
			s := &retrynats.Store{KV: b, Key: "k"}
			wg.Go(func() {
				for range 20 {
					got, err := s.Reserve(t.Context(), five(1))
					mu.Lock()
					if at = append(at, time.Since(begin)+time.Duration(got.Wait*1e9)); err != nil || got.N != 1 {
						t.Errorf("%+v, %v", got, err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		slices.Sort(at)
		for i := range at[1:] {
			if gap := at[i+1] - at[i]; gap < 197*ms {
				t.Errorf("two slots within %v", gap)
			}
		}
	})
}

func TestNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := known()
		ctx, cancel := context.WithCancel(t.Context())
		f := &retrynats.Store{KV: b, Key: "k"}
		news := f.News(ctx)
		synctest.Wait()
		b.want(t, "watch k.news")
		for range 3 {
			b.watchers[0] <- nil
		}
		synctest.Wait()
		if len(news) != 1 || cap(news) != 1 {
			t.Errorf("%d elements of three, want one", len(news))
		}
		<-news

		// A subscription that ends, and one that cannot be made, are tried again.
		failures := 0
		b.fail = func(string) error {
			if failures++; failures <= 3 {
				return context.Canceled // final, if it were not for the policy
			}
			return nil
		}
		close(b.watchers[0])
		time.Sleep(time.Minute)
		synctest.Wait()
		b.want(t, "stop k.news", "watch k.news", "watch k.news", "watch k.news", "watch k.news")
		b.watchers[1] <- nil
		<-news
		cancel()
		_, more := <-news
		b.want(t, "stop k.news") // before the channel is closed
		if more {
			t.Error("news after the end")
		}
	})
}
