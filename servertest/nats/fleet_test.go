package nats_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry/fleetpace"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// paces returns the bucket for fleets.
func paces(t testing.TB, js jetstream.JetStream) jetstream.KeyValue {
	t.Helper()
	kv, err := js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "paces", Storage: jetstream.MemoryStorage, TTL: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// exchange exchanges, and fails t if there is an error.
func exchange(t *testing.T, f *retrynats.Fleet, r fleetpace.Report) fleetpace.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := f.Exchange(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestNobodyGetsATurnTwice(t *testing.T) {
	js, s := single(t)
	kv := paces(t, js)
	exchange(t, &retrynats.Fleet{KV: kv, Key: "provider/model/key"}, fleetpace.Report{Rate: 1e6})
	type turn struct{ first, size float64 }
	var mu sync.Mutex
	var turns []turn
	var wg sync.WaitGroup
	for range 8 {
		kv, err := connect(t, s.ClientURL()).KeyValue(t.Context(), "paces")
		if err != nil {
			t.Fatal(err)
		}
		f := &retrynats.Fleet{KV: kv, Key: "provider/model/key"}
		wg.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				a, err := f.Exchange(ctx, fleetpace.Report{Take: float64(i%3 + 1), Patience: 600})
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				turns = append(turns, turn{a.First, a.Size})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.SortFunc(turns, func(a, b turn) int { return int(a.first - b.first) })
	next := 0.
	for _, turn := range turns {
		if turn.first != next || turn.size < 1 {
			t.Fatalf("turns from %v on were given, want from %v on", turn.first, next)
		}
		next += turn.size
	}
	if len(turns) != 800 {
		t.Errorf("%d exchanges, want 800", len(turns))
	}
}

// A key has a marker after it was deleted or purged, and none in a bucket that is new.
func TestStateThatWasLostBeginsAgain(t *testing.T) {
	js, _ := single(t)
	kv := paces(t, js)
	for name, lose := range map[string]func() error{
		"deleted": func() error { return kv.Delete(t.Context(), "k") },
		"purged":  func() error { return kv.Purge(t.Context(), "k") },
		"a new bucket": func() error {
			if err := js.DeleteKeyValue(t.Context(), "paces"); err != nil {
				return err
			}
			paces(t, js)
			return nil
		},
	} {
		f, late := &retrynats.Fleet{KV: kv, Key: "k"}, &retrynats.Fleet{KV: kv, Key: "k"}
		exchange(t, f, fleetpace.Report{Rate: 10})
		before := exchange(t, late, fleetpace.Report{Take: 5, Patience: 60})
		exchange(t, f, fleetpace.Report{})
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		r := fleetpace.Report{Epoch: before.Epoch, Round: before.Round, Rate: 7, Take: 1, Patience: 60}
		after := exchange(t, f, r)
		if after.Epoch == before.Epoch || after.Mode != fleetpace.Paced || after.Rate != 7 || after.First != 0 || after.Size != 1 {
			t.Errorf("%s: %+v after %+v", name, after, before)
		}
		if again := exchange(t, late, r); again.Epoch != after.Epoch || again.First != 1 {
			t.Errorf("%s: %+v after %+v", name, again, after)
		}
		if err := kv.Purge(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEntryOfOthersStays(t *testing.T) {
	js, _ := single(t)
	kv := paces(t, js)
	f := &retrynats.Fleet{KV: kv, Key: "k"}
	exchange(t, f, fleetpace.Report{Hits: 1})
	if _, err := kv.PutString(t.Context(), "k", "{}"); err != nil {
		t.Fatal(err)
	}
	if a, err := f.Exchange(t.Context(), fleetpace.Report{}); err == nil || a != (fleetpace.Answer{}) {
		t.Errorf("%+v, %v", a, err)
	}
	if e, err := kv.Get(t.Context(), "k"); err != nil || string(e.Value()) != "{}" {
		t.Errorf("it has become %v, %v", e, err)
	}
}

// told waits for an element of news.
func told(t *testing.T, news <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-news:
	case <-time.After(patience):
		t.Fatal("no news of ", what)
	}
}

// watchers waits until there are n subscriptions to the news.
func watchers(t *testing.T, js jetstream.JetStream, n int) {
	t.Helper()
	eventually(t, "watched", func() bool {
		s, err := js.Stream(t.Context(), "KV_paces")
		return err == nil && s.CachedInfo().State.Consumers == n
	})
}

func TestNewsArriveAtAnotherConnection(t *testing.T) {
	js, s := single(t)
	f := &retrynats.Fleet{KV: paces(t, js), Key: "provider/model/key"}
	exchange(t, f, fleetpace.Report{Started: 1})
	other := connect(t, s.ClientURL())
	kv, err := other.KeyValue(t.Context(), "paces")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	news := (&retrynats.Fleet{KV: kv, Key: f.Key}).News(ctx)
	watchers(t, js, 1)
	for range 20 {
		exchange(t, f, fleetpace.Report{Started: 1})
	}
	if a := exchange(t, f, fleetpace.Report{Hits: 1}); !a.News {
		t.Fatalf("%+v", a)
	}
	told(t, news, "counting")
	select {
	case <-news:
		t.Error("twenty exchanges without news, and two elements")
	default:
	}

	// The server drops the connection, and the news comes while there is none.
	reconnected := make(chan struct{}, 9)
	other.Conn().SetReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} })
	id, err := other.Conn().GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DisconnectClientByID(id); err != nil {
		t.Fatal(err)
	}
	if err := f.KV.Purge(t.Context(), f.Key); err != nil {
		t.Fatal(err)
	}
	if a := exchange(t, f, fleetpace.Report{Rate: 10}); !a.News {
		t.Fatalf("%+v", a)
	}
	<-reconnected
	told(t, news, "a rate")

	cancel()
	watchers(t, js, 0)
}

func TestNewsEndWithTheirContext(t *testing.T) {
	js, s := single(t)
	kv := paces(t, js)
	left := func() (found []string) {
		buf := make([]byte, 1<<20)
		for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "retrynats.(*Fleet)") || strings.Contains(stack, "waitForMsgs") {
				found = append(found, stack)
			}
		}
		return found
	}
	before := len(left())
	for _, down := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		for _, key := range []string{"a", "b", "c"} {
			(&retrynats.Fleet{KV: kv, Key: key}).News(ctx)
		}
		watchers(t, js, 3)
		if down {
			s.Shutdown()
			s.WaitForShutdown()
			(&retrynats.Fleet{KV: kv, Key: "d"}).News(ctx)
		}
		cancel()
		eventually(t, "ended", func() bool { return len(left()) <= before })
	}
}

func TestExchangeEndsWithItsContext(t *testing.T) {
	js, s := single(t)
	f := &retrynats.Fleet{KV: paces(t, js), Key: "k"}
	exchange(t, f, fleetpace.Report{})
	s.Shutdown()
	s.WaitForShutdown()
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		ended := make(chan error, 1)
		go func() {
			_, err := f.Exchange(ctx, fleetpace.Report{})
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a server that is down answers")
			}
		case <-time.After(patience):
			t.Fatal("Exchange goes on after its context has ended")
		}
		cancel()
	}
}

func BenchmarkExchange(b *testing.B) {
	s := startServer(b, -1, b.TempDir())
	f := &retrynats.Fleet{KV: paces(b, connect(b, s.ClientURL())), Key: "k"}
	for b.Loop() {
		if _, err := f.Exchange(b.Context(), fleetpace.Report{Rate: 1e6, Take: 1, Patience: 60}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exchanges/s")
}
