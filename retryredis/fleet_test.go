package retryredis_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry/fleetpace"
	"github.com/goretry/retry/retryredis"
	"github.com/redis/go-redis/v9"
)

var _ fleetpace.Fleet = &retryredis.Fleet{Key: "provider/model/key"}

// patience is how long a test waits for what must happen, however slow the machine is.
const patience = time.Minute

// eventually waits until what holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never ", what)
		}
	}
}

// connect returns a client of its own, which does not repeat requests.
func connect(t testing.TB, s *server) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// exchange exchanges, and fails t if there is an error.
func exchange(t *testing.T, f *retryredis.Fleet, r fleetpace.Report) fleetpace.Answer {
	t.Helper()
	a, err := f.Exchange(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// paced lets a fleet have a rate, which the first report brings.
func paced(t *testing.T, f *retryredis.Fleet, rate float64) fleetpace.Answer {
	t.Helper()
	a := exchange(t, f, fleetpace.Report{Rate: rate})
	if a.Mode != fleetpace.Paced || a.Rate != rate {
		t.Fatalf("%+v, want a rate of %v", a, rate)
	}
	return a
}

// The key is not of the fleet, or of another version of the law: nothing is lost.
func TestKeyWithAnotherValueIsAnErrorAndStays(t *testing.T) {
	client := connect(t, start(t))
	ctx := t.Context()
	f := &retryredis.Fleet{Client: client, Key: "k"}
	paced(t, f, 10)
	good := client.Get(ctx, f.Key).Val()
	for name, text := range map[string]string{
		"nothing":         "",
		"another value":   "{}",
		"a version":       "2" + good[1:],
		"too few":         good[:strings.LastIndexByte(good, ' ')],
		"too many":        good + " 1",
		"no number":       good + "x",
		"NaN":             "1 nan" + good[strings.IndexByte(good[2:], ' ')+2:],
		"infinity":        "1 -inf" + good[strings.IndexByte(good[2:], ' ')+2:],
		"too large":       "1 1e999" + good[strings.IndexByte(good[2:], ' ')+2:],
		"a very long one": good + strings.Repeat(" ", 1000),
	} {
		if err := client.Set(ctx, f.Key, text, 0).Err(); err != nil {
			t.Fatal(err)
		}
		a, err := f.Exchange(ctx, fleetpace.Report{Hits: 1})
		if err == nil || a != (fleetpace.Answer{}) || !strings.Contains(err.Error(), "not the text of a State") {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if left := client.Get(ctx, f.Key).Val(); left != text {
			t.Errorf("%s: %q was replaced by %q", name, text, left)
		}
	}
	client.Del(ctx, f.Key)
	client.HSet(ctx, f.Key, "a", "b")
	if a, err := f.Exchange(ctx, fleetpace.Report{}); err == nil || client.HGet(ctx, f.Key, "a").Val() != "b" {
		t.Errorf("a hash: %+v, %v", a, err)
	}
}

// The script reads what the law reads: a text with one other number, or with two.
func TestScriptReadsWhatTheLawReads(t *testing.T) {
	client := connect(t, start(t))
	ctx := t.Context()
	f := &retryredis.Fleet{Client: client, Key: "k"}
	paced(t, f, 10)
	good := strings.Fields(client.Get(ctx, f.Key).Val())
	values := []string{"-1", "-1e-9", "0", ".5", "1", "2", "7", "1e10", "1e17", "1e300", "x", "0x10", "1_0", "inf", "nan", "1e-5"}
	read, refused, names := 0, 0, names(t)
	for i := 1; i < len(good); i++ {
		for _, other := range []string{"", "mode", "head", "tail", "trial_round", "trial_share"} { // alone, or too
			j := i
			if other != "" {
				j = 1 + slices.Index(names, other)
			}
			for _, v := range values {
				words := slices.Clone(good)
				words[i], words[j] = v, v
				text := strings.Join(words, " ")
				want := new(fleetpace.State).UnmarshalText([]byte(text))
				if err := client.Set(ctx, f.Key, text, 0).Err(); err != nil {
					t.Fatal(err)
				}
				_, err := f.Exchange(ctx, fleetpace.Report{})
				if (err == nil) != (want == nil) {
					t.Errorf("%q: %v, and the law says %v", text, err, want)
				}
				if want == nil {
					read++
				} else {
					refused++
				}
			}
		}
	}
	if read < 100 || refused < 100 {
		t.Errorf("%d texts were read, and %d refused", read, refused)
	}
}

// A state whose numbers have as many digits as they can is read too.
func TestLongestTextIsRead(t *testing.T) {
	client := connect(t, start(t))
	f := &retryredis.Fleet{Client: client, Key: "k"}
	short := map[string]string{
		"epoch": "4503599627370496", "mode": "3", "round": "4503599627370496", "rate": "0.017345678901234566",
		"sure": "1", "trial_round": "4503599627370496", "trial_seen": "1",
	}
	text := "1"
	for _, name := range names(t) {
		if word, ok := short[name]; ok {
			text += " " + word
		} else {
			text += " 1.2345678901234568e-300"
		}
	}
	client.Set(t.Context(), f.Key, text, 0)
	if a := exchange(t, f, fleetpace.Report{}); a.Epoch != 1<<52 {
		t.Errorf("%+v after a text of %d bytes: %s", a, len(text), text)
	}
}

func TestReportThatIsNotFiniteIsAnErrorAndLeavesTheState(t *testing.T) {
	client := connect(t, start(t))
	f := &retryredis.Fleet{Client: client, Key: "k"}
	exchange(t, f, fleetpace.Report{Hits: 1})
	before := client.Get(t.Context(), f.Key).Val()
	for _, x := range []float64{math.Inf(1), math.NaN()} {
		for name, r := range map[string]fleetpace.Report{
			"costs":   {Costs: x, Priced: 1},
			"started": {Counted: true, Started: x},
		} {
			if name == "costs" && x != x {
				continue // counts as none
			}
			if a, err := f.Exchange(t.Context(), r); err == nil {
				t.Errorf("%v %s: %+v", x, name, a)
			}
			if after := client.Get(t.Context(), f.Key).Val(); after != before {
				t.Errorf("%v %s: %s became %s", x, name, before, after)
			}
		}
	}
}

func TestStateExpiresTenMinutesAfterTheLastExchange(t *testing.T) {
	client := connect(t, start(t))
	ctx := t.Context()
	f := &retryredis.Fleet{Client: client, Key: "k"}
	first := paced(t, f, 10)
	client.Expire(ctx, f.Key, time.Second)
	second := exchange(t, f, fleetpace.Report{Epoch: first.Epoch})
	if ttl := client.TTL(ctx, f.Key).Val(); ttl > 10*time.Minute || ttl < 5*time.Minute || second.Epoch != first.Epoch {
		t.Errorf("it expires in %v, want ten minutes", ttl)
	}
	client.PExpire(ctx, f.Key, time.Millisecond)
	eventually(t, "expired", func() bool { return client.Exists(ctx, f.Key).Val() == 0 })
	third := exchange(t, f, fleetpace.Report{Epoch: first.Epoch, Round: second.Round, Rate: 7})
	if third.Epoch == first.Epoch || third.Mode != fleetpace.Paced || third.Rate != 7 || third.Round <= second.Round {
		t.Errorf("%+v after the state has expired", third)
	}
}

func TestNobodyGetsATurnTwice(t *testing.T) {
	s := start(t)
	paced(t, &retryredis.Fleet{Client: connect(t, s), Key: "k"}, 1e6)
	type turn struct{ first, size float64 }
	var mu sync.Mutex
	var turns []turn
	var wg sync.WaitGroup
	for range 8 {
		f := &retryredis.Fleet{Client: connect(t, s), Key: "k"}
		wg.Go(func() {
			for i := range 500 {
				a, err := f.Exchange(t.Context(), fleetpace.Report{Take: float64(i%3 + 1), Patience: 600})
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
	if len(turns) != 4000 {
		t.Errorf("%d exchanges, want 4000", len(turns))
	}
}

// subscribed waits until n connections are subscribed to the news.
func subscribed(t *testing.T, client *redis.Client, key string, n int64) {
	t.Helper()
	eventually(t, "subscribed", func() bool { return client.PubSubNumSub(t.Context(), key).Val()[key] == n })
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

func TestNewsArriveAtAnotherClient(t *testing.T) {
	s := start(t)
	f, other := &retryredis.Fleet{Client: connect(t, s), Key: "k"}, &retryredis.Fleet{Client: connect(t, s), Key: "k"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	news := other.News(ctx)
	admin := connect(t, s)
	subscribed(t, admin, f.Key, 1)
	exchange(t, f, fleetpace.Report{Started: 5})
	if a := exchange(t, f, fleetpace.Report{Hits: 1}); !a.News {
		t.Fatalf("%+v", a)
	}
	told(t, news, "counting")

	// A lost connection is replaced, and what was missed meanwhile counts as news.
	if err := admin.ClientKillByFilter(ctx, "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	told(t, news, "a connection that is back")
	subscribed(t, admin, f.Key, 1)
	admin.Del(ctx, f.Key)
	paced(t, f, 10)
	told(t, news, "a rate")

	// Elements that nobody receives are one.
	for range 5 {
		admin.Publish(ctx, f.Key, "")
	}
	told(t, news, "five")
	for range 5 {
		admin.Publish(ctx, f.Key, "")
	}
	told(t, news, "five")

	cancel()
	subscribed(t, admin, f.Key, 0)
}

func TestNoNewsWithoutAChange(t *testing.T) {
	s := start(t)
	f := &retryredis.Fleet{Client: connect(t, s), Key: "k"}
	news := f.News(t.Context())
	admin := connect(t, s)
	subscribed(t, admin, f.Key, 1)
	a := paced(t, f, 10)
	told(t, news, "a rate")
	for range 20 {
		exchange(t, f, fleetpace.Report{Epoch: a.Epoch, Take: 1, Patience: 60})
	}
	admin.Publish(t.Context(), f.Key, "") // comes after all that the exchanges may have told
	told(t, news, "the last")
	select {
	case <-news:
		t.Error("news without a change")
	default:
	}
}

// The client waits for a minute, and the context for a moment.
func TestExchangeEndsWithItsContext(t *testing.T) {
	s := start(t)
	client := redis.NewClient(&redis.Options{Addr: s.addr(), ReadTimeout: 2 * patience, DialTimeout: 2 * patience})
	defer client.Close()
	f := &retryredis.Fleet{Client: client, Key: "k"}
	exchange(t, f, fleetpace.Report{})
	goOn := s.halt()
	defer goOn()
	for range 3 { // with a connection, and without
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		ended := make(chan error, 1)
		go func() {
			_, err := f.Exchange(ctx, fleetpace.Report{Hits: 1})
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Exchange returned %v", err)
			}
		case <-time.After(patience):
			t.Fatal("Exchange goes on after its context has ended")
		}
		cancel()
	}
	goOn()
	eventually(t, "answered", func() bool {
		a, err := f.Exchange(t.Context(), fleetpace.Report{})
		return err == nil && a.Mode == fleetpace.Counting // what had been sent was applied
	})
}

// A server that was killed has neither the script nor the state.
func TestServerThatComesBackEmpty(t *testing.T) {
	s := start(t)
	f := &retryredis.Fleet{Client: connect(t, s), Key: "k"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	news := f.News(ctx)
	admin := connect(t, s)
	subscribed(t, admin, f.Key, 1)
	before := paced(t, f, 10)
	told(t, news, "a rate")
	s.kill()
	if a, err := f.Exchange(ctx, fleetpace.Report{}); err == nil {
		t.Fatalf("%+v of a server that is not there", a)
	}
	if !s.run() {
		t.Fatal("the server does not start again")
	}
	var after fleetpace.Answer
	eventually(t, "answered", func() (ok bool) {
		var err error
		after, err = f.Exchange(ctx, fleetpace.Report{Epoch: before.Epoch, Round: before.Round, Rate: before.Rate, Take: 1, Patience: 60})
		return err == nil
	})
	if after.Epoch == before.Epoch || after.Mode != fleetpace.Paced || after.Rate != 10 || after.First != 0 {
		t.Errorf("%+v after %+v", after, before)
	}
	subscribed(t, admin, f.Key, 1)
	told(t, news, "a connection that is back")
}

// goroutines returns the stacks in which something of ours or of the client stands.
func goroutines() (found []string) {
	buf := make([]byte, 1<<20)
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "retryredis.(*Fleet)") || strings.Contains(stack, "redis.(*PubSub)") || strings.Contains(stack, "redis.(*channel)") {
			found = append(found, stack)
		}
	}
	return found
}

func TestNoGoroutineIsLeft(t *testing.T) {
	for _, halted := range []bool{false, true} {
		t.Run(fmt.Sprint("halted=", halted), func(t *testing.T) {
			s := start(t)
			client := redis.NewClient(&redis.Options{Addr: s.addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
			defer client.Close()
			f := &retryredis.Fleet{Client: client, Key: "k"}
			ctx, cancel := context.WithCancel(t.Context())
			for range 3 {
				f.News(ctx)
			}
			subscribed(t, client, f.Key, 3)
			exchange(t, f, fleetpace.Report{})
			if halted {
				defer s.halt()()
				f.News(ctx)
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				if _, err := f.Exchange(short, fleetpace.Report{}); err == nil {
					t.Error("a server that does nothing answers")
				}
			}
			cancel()
			var left []string
			eventually(t, "ended", func() bool { left = goroutines(); return len(left) == 0 })
		})
	}
}

func TestClusterClient(t *testing.T) {
	s := start(t, "--cluster-enabled", "yes")
	admin := connect(t, s)
	ctx := t.Context()
	if err := admin.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a cluster", func() bool { return strings.Contains(admin.ClusterInfo(ctx).Val(), "cluster_state:ok") })
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.addr()}})
	defer client.Close()
	f := &retryredis.Fleet{Client: client, Key: "provider/model/key"}
	news := f.News(ctx)
	subscribed(t, admin, f.Key, 1)
	paced(t, f, 10)
	told(t, news, "a rate")
}

func TestRingClient(t *testing.T) {
	one, two := start(t), start(t)
	client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": one.addr(), "two": two.addr()}})
	defer client.Close()
	for i := range 8 { // whichever has the key has the channel
		f := &retryredis.Fleet{Client: client, Key: "key" + strconv.Itoa(i)}
		news := f.News(t.Context())
		eventually(t, "subscribed", func() bool {
			return connect(t, one).PubSubNumSub(t.Context(), f.Key).Val()[f.Key]+connect(t, two).PubSubNumSub(t.Context(), f.Key).Val()[f.Key] == 1
		})
		paced(t, f, 10)
		told(t, news, "a rate")
	}
}

// The package documentation says what a user of Redis needs.
func TestAccessListOfTheDocumentation(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	admin := connect(t, s)
	rules := []any{"ACL", "SETUSER", "app", "on", ">secret", "resetchannels"}
	for _, rule := range strings.Fields(acl(t)) {
		rules = append(rules, rule)
	}
	if err := admin.Do(ctx, rules...).Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr(), Username: "app", Password: "secret"})
	defer client.Close()
	f := &retryredis.Fleet{Client: client, Key: "provider/model/key"}
	news := f.News(ctx)
	subscribed(t, admin, f.Key, 1)
	paced(t, f, 10)
	told(t, news, "a rate")
	if a, err := (&retryredis.Fleet{Client: client, Key: "other"}).Exchange(ctx, fleetpace.Report{}); err == nil {
		t.Errorf("%+v of a key that the user may not use", a)
	}
	// Without the channel nobody would hear: that is an error too, and changes nothing.
	admin.Del(ctx, f.Key)
	if err := admin.Do(ctx, "ACL", "SETUSER", "app", "resetchannels").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an error", func() bool { // the server closes the subscriber's connection
		_, err := f.Exchange(ctx, fleetpace.Report{Hits: 1})
		return err != nil && strings.Contains(strings.ToLower(err.Error()), "channel")
	})
	if n := admin.Exists(ctx, f.Key).Val(); n != 0 {
		t.Error("a state without its news")
	}
}

func BenchmarkExchange(b *testing.B) {
	s := start(b)
	client := connect(b, s)
	f := &retryredis.Fleet{Client: client, Key: "k"}
	if _, err := f.Exchange(b.Context(), fleetpace.Report{Rate: 1e6}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := f.Exchange(b.Context(), fleetpace.Report{Take: 1, Patience: 60, Hits: 1}); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exchanges/s")
}
