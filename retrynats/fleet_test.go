package retrynats_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry/fleetpace"
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
	watchers []chan jetstream.KeyValueEntry
}

// known returns a bucket with the State of a quota of which nothing is known.
func known() *bucket { return with(zero) }

// zero is the text of the zero State.
var zero = func() string {
	text, _ := new(fleetpace.State).MarshalText()
	return string(text)
}()

func with(text string) *bucket {
	return &bucket{entries: map[string]*fakeEntry{"k": {value: []byte(text), revision: 1}}, revision: 1}
}

type fakeEntry struct {
	jetstream.KeyValueEntry
	value    []byte
	revision uint64
}

func (e *fakeEntry) Value() []byte    { return e.value }
func (e *fakeEntry) Revision() uint64 { return e.revision }

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
	b.entries[key] = &fakeEntry{value: value, revision: b.revision}
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

// by lets another process exchange.
func (b *bucket) by(t *testing.T, r fleetpace.Report) fleetpace.Answer {
	t.Helper()
	a, err := (&retrynats.Fleet{KV: b, Key: "k"}).Exchange(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	b.calls = nil
	return a
}

func TestFleetThatIsNotSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, f := range []*retrynats.Fleet{{Key: "k"}, {KV: &bucket{}}} {
			if a, err := f.Exchange(t.Context(), fleetpace.Report{}); err == nil {
				t.Errorf("%+v", a)
			}
			select {
			case <-f.News(t.Context()):
				t.Error("news of nothing")
			default:
			}
		}
	})
}

func TestExchangeAppliesTheLaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := known()
		f := &retrynats.Fleet{KV: b, Key: "k"}
		exchange := func(r fleetpace.Report) fleetpace.Answer {
			t.Helper()
			a, err := f.Exchange(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := exchange(fleetpace.Report{Hits: 1}); a.Mode != fleetpace.Counting || a.Count != 1 || !a.News {
			t.Fatalf("%+v", a)
		}
		b.want(t, "get k", "update k", "put k.news")
		time.Sleep(250 * ms)
		if a := exchange(fleetpace.Report{}); math.Abs(a.Count-.75) > 1e-6 || a.News {
			t.Errorf("a quarter of a second later: %+v", a)
		}
		b.want(t, "get k", "update k")
		time.Sleep(time.Second)
		a := exchange(fleetpace.Report{Counted: true, Started: 20, Hits: 4})
		if a.Mode != fleetpace.Paced || math.Abs(a.Rate-16) > 1e-3 || !a.News {
			t.Errorf("%+v", a)
		}
		b.want(t, "get k", "update k", "put k.news")
		var s fleetpace.State
		if err := s.UnmarshalText(b.entries["k"].value); err != nil {
			t.Fatal(err)
		}
		if other := b.by(t, fleetpace.Report{Epoch: a.Epoch, Take: 2, Patience: 60}); other.Epoch != a.Epoch || other.Size != 2 {
			t.Errorf("another process: %+v", other)
		}
	})
}

func TestConflictIsTriedAgain(t *testing.T) {
	for name, code := range map[string]jetstream.ErrorCode{"of one server": 10071, "of a cluster": 10164} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := known()
				first := b.by(t, fleetpace.Report{Rate: 100, Take: 3, Patience: 60})
				b.fail = func(call string) error {
					if call == "get" {
						return nil
					}
					b.fail = nil
					return &jetstream.APIError{Code: 400, ErrorCode: code}
				}
				start := time.Now()
				a, err := (&retrynats.Fleet{KV: b, Key: "k"}).Exchange(t.Context(), fleetpace.Report{Epoch: first.Epoch, Take: 1, Patience: 60})
				if err != nil || a.First != 3 || a.Size != 1 {
					t.Errorf("%+v, %v; want the turn after the third", a, err)
				}
				if d := time.Since(start); d > 2*ms {
					t.Errorf("tried again after %v, want 2ms at most", d)
				}
				b.want(t, "get k", "update k", "get k", "update k")
			})
		})
	}
}

// Another process may exchange between the reading and the writing: what it took is its own.
func TestWhatAnotherProcessHasTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := known()
		first := b.by(t, fleetpace.Report{Rate: 100, Take: 3, Patience: 60})
		b.fail = func(call string) error {
			if call == "update" { // of what was before the other's
				b.fail = nil
				e := b.entries["k"]
				var s fleetpace.State
				if err := s.UnmarshalText(e.value); err != nil {
					t.Error(err)
				}
				s.Apply(float64(time.Now().Unix()), .5, fleetpace.Report{Epoch: first.Epoch, Take: 5, Patience: 60})
				text, _ := s.MarshalText()
				b.revision++
				b.entries["k"] = &fakeEntry{value: text, revision: b.revision}
			}
			return nil
		}
		a, err := (&retrynats.Fleet{KV: b, Key: "k"}).Exchange(t.Context(), fleetpace.Report{Epoch: first.Epoch, Take: 1, Patience: 60})
		if err != nil || a.First != 8 || a.Size != 1 {
			t.Errorf("%+v, %v; want the turn after the eighth", a, err)
		}
		b.want(t, "get k", "update k", "get k", "update k")
	})
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
		f := &retrynats.Fleet{KV: b, Key: "k"}
		ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
		defer cancel()
		start := time.Now()
		a, err := f.Exchange(ctx, fleetpace.Report{})
		if !errors.Is(err, jetstream.ErrKeyExists) || a != (fleetpace.Answer{}) {
			t.Errorf("%+v, %v", a, err)
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
			f := &retrynats.Fleet{KV: b, Key: "k"}
			b.fail = func(c string) error {
				if c == call {
					return down
				}
				return nil
			}
			a, err := f.Exchange(t.Context(), fleetpace.Report{})
			if !errors.Is(err, down) || a != (fleetpace.Answer{}) {
				t.Errorf("%s: %+v, %v", call, a, err)
			}
			b.want(t, calls...)
		}
	}
}

func TestEntryWithAnotherValueIsAnErrorAndStays(t *testing.T) {
	for _, text := range []string{"", "{}", "1 NaN" + zero[3:], "2" + zero[1:], zero + " 0", zero[2:], "1 7 7" + zero[5:], "1 7 -1" + zero[5:], "1 7.5" + zero[3:]} {
		b := with(text)
		f := &retrynats.Fleet{KV: b, Key: "k"}
		for range 2 {
			a, err := f.Exchange(t.Context(), fleetpace.Report{Hits: 1})
			if err == nil || a != (fleetpace.Answer{}) {
				t.Errorf("%q: %+v, %v", text, a, err)
			}
			b.want(t, "get k")
		}
	}
}

// A state that a law cannot have, and reports of what is not finite, are written nowhere.
func TestNothingThatIsNotOfTheLawIsWritten(t *testing.T) {
	b := with("1 7 3" + zero[5:]) // paced, without a rate
	if a, err := (&retrynats.Fleet{KV: b, Key: "k"}).Exchange(t.Context(), fleetpace.Report{Take: 1}); err == nil || a != (fleetpace.Answer{}) {
		t.Errorf("%+v, %v", a, err)
	}
	b.want(t, "get k")

	b = known()
	b.by(t, fleetpace.Report{Hits: 1})
	for name, r := range map[string]fleetpace.Report{
		"costs":   {Costs: math.Inf(1), Priced: 1},
		"started": {Counted: true, Started: math.Inf(1)},
		"hits":    {Counted: true, Hits: math.NaN()},
	} {
		if a, err := (&retrynats.Fleet{KV: b, Key: "k"}).Exchange(t.Context(), r); err == nil || a != (fleetpace.Answer{}) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		b.want(t, "get k")
	}
}

// What was exchanged counts, though nobody hears of it.
func TestNewsThatCannotBeTold(t *testing.T) {
	b := known()
	b.fail = func(call string) error {
		if call == "put" {
			return errDown
		}
		return nil
	}
	if a, err := (&retrynats.Fleet{KV: b, Key: "k"}).Exchange(t.Context(), fleetpace.Report{Hits: 1}); err != nil || a.Mode != fleetpace.Counting {
		t.Errorf("%+v, %v", a, err)
	}
	b.want(t, "get k", "update k", "put k.news")
}

func TestExchangesOfOneFleetAtOnce(t *testing.T) {
	b := known()
	f := &retrynats.Fleet{KV: b, Key: "k"}
	b.by(t, fleetpace.Report{Rate: 1e6})
	given := map[float64]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				a, err := f.Exchange(t.Context(), fleetpace.Report{Take: 1, Patience: 60})
				mu.Lock()
				if err != nil || given[a.First] || a.Size != 1 {
					t.Errorf("%+v, %v", a, err)
				}
				given[a.First] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := known()
		ctx, cancel := context.WithCancel(t.Context())
		f := &retrynats.Fleet{KV: b, Key: "k"}
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
		synctest.Wait()
		b.want(t, "stop k.news")
	})
}
