package retryredis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryredis"
	"github.com/redis/go-redis/v9"
)

// patience is how long a test waits for what does not depend on it.
const patience = 20 * time.Second

func connect(t testing.TB, s *server) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.addr()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// state returns what the key has.
func state(t *testing.T, client *redis.Client, key string) (s pace.State) {
	t.Helper()
	all, err := client.HGetAll(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]json.Number{}
	for name, x := range all {
		numbers[name] = json.Number(x)
	}
	text, err := json.Marshal(numbers)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatalf("%v: %v", all, err)
	}
	return s
}

// numbers returns those of a State.
func numbers(s pace.State) (n struct{ Tat, At, Until, Ahead float64 }) {
	text, _ := json.Marshal(s)
	_ = json.Unmarshal(text, &n)
	return n
}

// However Asks come and clocks go, the script answers and keeps what State.Reserve does.
func TestScriptIsTheLaw(t *testing.T) {
	client := connect(t, start(t))
	s := &retryredis.Store{Client: client, Key: "provider/model/key"}
	chance := rand.New(rand.NewPCG(3, 6))
	size := func(most float64) float64 { // often small, and a whole number
		x := math.Pow(chance.Float64(), 3) * most
		if chance.IntN(3) > 0 {
			x = math.Floor(x)
		}
		return x
	}
	var law pace.State
	now, met := 1.7e9, map[string]int{}
	rate, burst := 25., 5.
	for range 20_000 {
		switch chance.IntN(100) {
		case 0:
			rate, burst = .1+size(2e4), 1+size(100)
		case 1:
			now += (chance.Float64() - .5) * []float64{4, 100}[chance.IntN(2)] // the clock is set
			met["set"]++
		case 2:
			now += chance.Float64() * 1e4
		case 3:
			law = pace.State{}
			if err := client.Del(t.Context(), s.Key).Err(); err != nil {
				t.Fatal(err)
			}
		default:
			now += size(2)
		}
		a := pace.Ask{Rate: rate, Burst: burst, Want: size(100), Patience: size(120)}
		if chance.IntN(2) == 0 {
			a.Least = min(size(20), a.Want)
		}
		switch chance.IntN(8) {
		case 0, 1:
			a.Unused = size(20)
		case 2:
			a.Spent = (chance.Float64() - .5) * 40
		}
		if chance.IntN(3) == 0 {
			a.Patience = size(2)
		}
		if chance.IntN(20) == 0 {
			a.Hold, a.Row = size(200), size(10)
		}
		if chance.IntN(4) == 0 {
			a.Passed = size(20)
		}
		before := law
		want, _, err := law.Reserve(now, a)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.ReserveAt(t.Context(), now, a)
		if err != nil || got != want {
			t.Fatalf("%+v at %v: %+v, %v; want %+v", a, now, got, err, want)
		}
		if kept := state(t, client, s.Key); kept != law {
			t.Fatalf("%+v at %v keeps %+v, want %+v", a, now, kept, law)
		}
		switch law, before := numbers(law), numbers(before); {
		case law.Until > before.Until && a.Hold > 0:
			met["held"]++
		case a.Hold > 0:
			met["not held"]++
		case law.Ahead > law.At && law.Ahead > before.Ahead:
			met["ahead"]++
		case got.N > 0 && law.Tat == before.Tat:
			met["free"]++
		case got.N > 1:
			met["several"]++
		case got.N == 1:
			met["one"]++
		case a.Want > 0:
			met["none"]++
		}
	}
	for _, what := range []string{"set", "held", "not held", "ahead", "free", "several", "one", "none"} {
		if met[what] < 100 {
			t.Errorf("%s: %d times", what, met[what])
		}
	}
}

// The server's clock counts, and a key that nobody uses expires.
func TestTheServersClock(t *testing.T) {
	client := connect(t, start(t))
	s := &retryredis.Store{Client: client, Key: "k"}
	before := float64(time.Now().UnixMicro()) / 1e6
	got, err := s.Reserve(t.Context(), pace.Ask{Rate: .5, Burst: 1, Want: 3, Least: 1, Patience: 10})
	after := float64(time.Now().UnixMicro()) / 1e6
	if err != nil || got.N != 1 || got.Wait != 0 || -got.Moved < before || -got.Moved > after {
		t.Errorf("%+v, %v", got, err)
	}
	if kept := numbers(state(t, client, "k")); kept.At < before || kept.At > after || kept.Tat != kept.At {
		t.Errorf("%+v between %v and %v", kept, before, after)
	}
	if ttl := client.PTTL(t.Context(), "k").Val(); ttl <= 9*time.Minute || ttl > 10*time.Minute {
		t.Errorf("it expires in %v", ttl)
	}
}

// The key is there as long as it says more than none: until all of the quota is free again.
func TestHowLongAKeyIsKept(t *testing.T) {
	client := connect(t, start(t))
	s := &retryredis.Store{Client: client, Key: "k"}
	for _, tt := range []struct {
		a    pace.Ask
		keep time.Duration
	}{
		{pace.Ask{Rate: 10. / 86400, Burst: 1, Want: 1, Least: 1}, 8640 * time.Second},
		{pace.Ask{Rate: 10. / 86400, Burst: 1, Want: 1, Least: 1, Patience: 1e4}, 2 * 8640 * time.Second},
		{pace.Ask{Rate: 10, Burst: 5, Want: 1, Least: 1}, 10 * time.Minute},
		{pace.Ask{Rate: 10, Burst: 5, Hold: 75}, 10 * time.Minute},
	} {
		if _, err := s.Reserve(t.Context(), tt.a); err != nil {
			t.Fatal(err)
		}
		kept := state(t, client, "k")
		ttl := client.PTTL(t.Context(), "k").Val()
		if want := kept.Keep(tt.a); ttl > want+time.Second || ttl < want-time.Minute || want < tt.keep-time.Second || want > tt.keep+time.Second {
			t.Errorf("after %+v it expires in %v, Keep says %v, want %v", tt.a, ttl, want, tt.keep)
		}
		if tt.a.Rate > 1 || tt.a.Patience > 0 {
			client.Del(t.Context(), "k")
		}
	}
}

// A key of before, which has four of the numbers, is read as it is.
func TestAKeyOfBefore(t *testing.T) {
	client := connect(t, start(t))
	s := &retryredis.Store{Client: client, Key: "k"}
	now := float64(time.Now().UnixMicro()) / 1e6
	if err := client.HSet(t.Context(), "k", "tat", now+100, "at", now, "moved", -5, "until", 0).Err(); err != nil {
		t.Fatal(err)
	}
	got, err := s.Reserve(t.Context(), pace.Ask{Rate: 1, Burst: 1, Want: 1, Least: 1, Patience: 1000})
	if err != nil || got.N != 1 || got.Wait < 60 || got.Wait > 101 || got.Moved != -5 {
		t.Errorf("%+v, %v", got, err)
	}
	if kept := numbers(state(t, client, "k")); kept.Tat != now+101 {
		t.Errorf("%+v", kept)
	}
}

// What is no State is another program's: it stays as it is, and the error says so.
func TestForeignKeys(t *testing.T) {
	client := connect(t, start(t))
	ctx := t.Context()
	for name, set := range map[string]func(key string) error{
		"a string":      func(key string) error { return client.Set(ctx, key, "1", 0).Err() },
		"a list":        func(key string) error { return client.LPush(ctx, key, "1").Err() },
		"another hash":  func(key string) error { return client.HSet(ctx, key, "name", "x").Err() },
		"a part of one": func(key string) error { return client.HSet(ctx, key, "tat", "1", "at", "1").Err() },
		"more than one": func(key string) error {
			return client.HSet(ctx, key, "tat", 1, "at", 1, "moved", 1, "until", 1, "x", 1).Err()
		},
		"one with a bad number": func(key string) error {
			return client.HSet(ctx, key, "tat", 1, "at", 1, "moved", 1, "until", 1, "free", "x").Err()
		},
		"words": func(key string) error {
			return client.HSet(ctx, key, "tat", "a", "at", "b", "moved", "c", "until", "d").Err()
		},
		"infinite ones": func(key string) error {
			return client.HSet(ctx, key, "tat", "inf", "at", 1, "moved", 1, "until", 1).Err()
		},
		"numbers of NaN": func(key string) error {
			return client.HSet(ctx, key, "tat", "nan", "at", 1, "moved", 1, "until", 1).Err()
		},
	} {
		if err := set(name); err != nil {
			t.Fatal(err)
		}
		before := client.Dump(ctx, name).Val()
		s := &retryredis.Store{Client: client, Key: name}
		if got, err := s.Reserve(ctx, pace.Ask{Rate: 1, Burst: 1, Want: 1}); err == nil || got != (pace.Slots{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if client.Dump(ctx, name).Val() != before {
			t.Errorf("%s is changed", name)
		}
	}
}

// The error of a server that refuses says why, and its first word is what metrics show.
func TestRefusals(t *testing.T) {
	server := start(t)
	client := connect(t, server)
	ctx := t.Context()
	for word, refuse := range map[string]func() *redis.Client{
		"WRONGTYPE": func() *redis.Client { client.Set(ctx, "k", 1, 0); return client },
		"NOPERM": func() *redis.Client {
			client.Do(ctx, "ACL", "SETUSER", "reader", "on", ">x", "~*", "+@read", "+ping", "+hello")
			return redis.NewClient(&redis.Options{Addr: server.addr(), Username: "reader", Password: "x"})
		},
		"READONLY": func() *redis.Client { client.Do(ctx, "REPLICAOF", "127.0.0.1", "1"); return client },
	} {
		client.Do(ctx, "REPLICAOF", "NO", "ONE")
		client.FlushAll(ctx)
		_, err := (&retryredis.Store{Client: refuse(), Key: "k"}).Reserve(ctx, pace.Ask{Rate: 1, Burst: 1, Want: 1})
		typed, ok := err.(interface{ ErrorType() string })
		if !ok || typed.ErrorType() != word {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// Processes that share a real Redis go on alone while something is wrong with it, say why, and share
// the quota again once it is right.
func TestPacesThatShare(t *testing.T) {
	server := start(t)
	client := connect(t, server)
	models := []*pace.Pace{{Quota: 1000, Burst: 10}, {Quota: 1000, Burst: 10}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, len(models))
	for _, m := range models {
		go func() { ended <- m.Share(ctx, &retryredis.Store{Client: client, Key: "quota"}) }()
	}
	until := func(what string, is func(pace.Status) bool) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			right := true
			for _, m := range models {
				if err := retry.Run(ctx, retry.Policy{Guards: []retry.Guard{m}}, func(context.Context) error { return nil }); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				right = right && is(m.Status())
			}
			if right {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, models[0].Status())
			}
		}
	}
	shared := func(s pace.Status) bool { return s.Shared && s.Err == nil }
	alone := func(word string) func(pace.Status) bool {
		return func(s pace.Status) bool { return !s.Shared && s.Err != nil && strings.Contains(s.Err.Error(), word) }
	}
	until("shared", shared)
	client.FlushAll(ctx)
	until("emptied", shared)
	client.Set(ctx, "quota", "another program's", 0)
	until("a foreign key", alone("WRONGTYPE"))
	client.Del(ctx, "quota")
	until("without it", shared)
	client.Do(ctx, "REPLICAOF", "127.0.0.1", "1")
	until("a replica", alone("READONLY"))
	client.Do(ctx, "REPLICAOF", "NO", "ONE")
	until("a master", shared)
	goOn := server.halt()
	until("a silent server", alone("has not answered"))
	goOn()
	until("one that goes on", shared)
	for rights, why := range map[string]string{"-evalsha": "NOPERM", "-hmset": "can't run this command", "resetkeys": "NOPERM"} {
		client.Do(ctx, "ACL", "SETUSER", "default", rights)
		until("a user without rights: "+rights, alone(why))
		client.Do(ctx, "ACL", "SETUSER", "default", "+@all", "~*")
		until("with all rights", shared)
	}
	client.ConfigSet(ctx, "maxmemory", "1")
	until("a server that is full", alone("OOM"))
	client.ConfigSet(ctx, "maxmemory", "0")
	until("one with room", shared)
	cancel()
	for range models {
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	}
}

// Under load, whatever removes the key or the script makes no process go on alone, and gives away at
// most a burst and the turns of half a second each time.
func TestEmptiedUnderLoad(t *testing.T) {
	client := connect(t, start(t))
	const rate, burst = 200, 20
	var mu sync.Mutex
	left, at, passed, refused := float64(burst), time.Now(), 0, 0
	request := func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		left, at = min(burst, left+rate*now.Sub(at).Seconds()), now
		if left < 1 {
			refused++
			return tooMany{}
		}
		left--
		passed++
		return nil
	}
	counts := func() (int, int) { mu.Lock(); defer mu.Unlock(); return passed, refused }
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	models := []*pace.Pace{{Quota: rate}, {Quota: rate}, {Quota: rate}}
	for _, m := range models {
		wg.Go(func() { _ = m.Share(ctx, &retryredis.Store{Client: client, Key: "quota"}) })
		for range 20 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{m}}, request)
				}
			})
		}
	}
	pass := func(n int) {
		t.Helper()
		before, _ := counts()
		for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			for _, m := range models {
				if s := m.Status(); s.Err != nil {
					t.Fatalf("%+v", s)
				}
			}
			if now, _ := counts(); now >= before+n {
				return
			}
			if time.Now().After(end) {
				t.Fatal("attempts stand still")
			}
		}
	}
	pass(rate)
	for name, empty := range map[string]func() error{
		"DEL":          func() error { return client.Del(ctx, "quota").Err() },
		"FLUSHALL":     func() error { return client.FlushAll(ctx).Err() },
		"SCRIPT FLUSH": func() error { return client.ScriptFlush(ctx).Err() },
	} {
		_, before := counts()
		if err := empty(); err != nil {
			t.Fatal(err)
		}
		pass(rate)
		if _, now := counts(); now-before > burst+rate/2 {
			t.Errorf("%s: %d attempts are refused", name, now-before)
		} else {
			t.Logf("%s: %d attempts are refused", name, now-before)
		}
	}
}

type tooMany struct{}

func (tooMany) Error() string   { return "status 429" }
func (tooMany) StatusCode() int { return 429 }

// An Ask that makes no sense is an error, here as in Go, and leaves the key alone.
func TestAsksThatMakeNoSense(t *testing.T) {
	client := connect(t, start(t))
	s := &retryredis.Store{Client: client, Key: "k"}
	good := pace.Ask{Rate: 1, Burst: 1, Want: 1}
	for _, x := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), 1e10} {
		for i := range 10 {
			a := good
			if x == -1 && i == 9 {
				continue // so much was used beyond what was given
			}
			*[]*float64{&a.Rate, &a.Burst, &a.Want, &a.Least, &a.Hold, &a.Row, &a.Passed, &a.Patience, &a.Unused, &a.Spent}[i] = x
			if got, err := s.Reserve(t.Context(), a); err == nil {
				t.Errorf("%+v: %+v", a, got)
			}
			if got, _, err := new(pace.State).Reserve(1, a); err == nil {
				t.Errorf("%+v: %+v", a, got)
			}
		}
	}
	for _, a := range []pace.Ask{{Burst: 1}, {Rate: 1}, {Rate: 1e-10, Burst: 1}} {
		if got, err := s.Reserve(t.Context(), a); err == nil {
			t.Errorf("%+v: %+v", a, got)
		}
	}
	if n := client.Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("there is a key")
	}
}

// fake is a client whose server replies as a test says.
type fake struct {
	redis.UniversalClient
	reply any
	err   error
}

func (f fake) EvalSha(context.Context, string, []string, ...any) *redis.Cmd {
	return redis.NewCmdResult(f.reply, f.err)
}

func TestRepliesOfSomethingElse(t *testing.T) {
	a := pace.Ask{Rate: 1, Burst: 1, Want: 1}
	reserve := func(reply any, err error) (pace.Slots, error) {
		return (&retryredis.Store{Client: fake{reply: reply, err: err}, Key: "k"}).Reserve(t.Context(), a)
	}
	if got, err := reserve([]any{"1", "2.5", "3", "4"}, nil); err != nil || got != (pace.Slots{N: 1, Wait: 2.5, Moved: 3, Held: 4}) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, bad := range []any{"1 2 3", []any{}, []any{"1", "2", "3"}, []any{"1", "2", "3", "4", "5"}, []any{"1", "x", "3", "4"}, []any{"1", "NaN", "3", "4"}, []any{"1", "2", "3", "inf"}, int64(3), nil} {
		if got, err := reserve(bad, nil); err == nil || got != (pace.Slots{}) {
			t.Errorf("%v: %+v, %v", bad, got, err)
		}
	}
	down := errors.New("down")
	if _, err := reserve(nil, down); !errors.Is(err, down) {
		t.Error(err)
	}
	for _, s := range []*retryredis.Store{{Key: "k"}, {Client: fake{}}} {
		if got, err := s.Reserve(t.Context(), a); err == nil {
			t.Errorf("%+v of %+v", got, s)
		}
		select {
		case <-s.News(t.Context()):
			t.Errorf("news of %+v", s)
		default:
		}
	}
}

// A Redis that is there and says nothing does not hold anybody up.
func TestAStoreThatIsSilent(t *testing.T) {
	server := start(t)
	s := &retryredis.Store{Client: connect(t, server), Key: "k"}
	a := pace.Ask{Rate: 1, Burst: 1, Want: 1}
	if _, err := s.Reserve(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	defer server.halt()()
	why := errors.New("why")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, why)
	defer cancel()
	if got, err := s.Reserve(ctx, a); err != why {
		t.Errorf("%+v, %v", got, err)
	}
}

// Whoever holds the quota tells all others, and others hear nothing.
func TestNews(t *testing.T) {
	client := connect(t, start(t))
	s, other := &retryredis.Store{Client: client, Key: "k"}, &retryredis.Store{Client: client, Key: "l"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	news, none := s.News(ctx), other.News(ctx)
	for end := time.Now().Add(patience); len(client.PubSubChannels(ctx, "*").Val()) < 2; {
		if time.Now().After(end) {
			t.Fatal("no subscription")
		}
	}
	a := pace.Ask{Rate: 10, Burst: 1}
	before, err := s.Reserve(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	a.Hold = 2
	got, err := s.Reserve(ctx, a)
	if by := got.Moved - before.Moved; err != nil || math.Abs(by-2) > 1e-3 {
		t.Fatalf("%+v, %v", got, err)
	}
	select {
	case <-news:
	case <-time.After(patience):
		t.Error("no news")
	}
	select {
	case <-none:
		t.Error("news of another quota")
	default:
	}
}

// watched is a connection that notes whether it has a subscription, and whether it is closed.
type watched struct {
	net.Conn
	subscribed, closed atomic.Bool
}

func (c *watched) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("subscribe")) {
		c.subscribed.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *watched) Close() error {
	err := c.Conn.Close()
	c.closed.Store(true)
	return err
}

// When Share has returned, the subscription is closed, so the client can be closed. Some versions
// of the client write of a subscription that they find closed.
func TestShareEndsItsSubscription(t *testing.T) {
	server := start(t)
	for range 20 { // what is closed too late is seen now and then
		var mu sync.Mutex
		var conns []*watched
		client := redis.NewClient(&redis.Options{Addr: server.addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			c := &watched{Conn: conn}
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, c)
			return c, nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		model := pace.Pace{Quota: 10}
		ended := make(chan error)
		go func() { ended <- model.Share(ctx, &retryredis.Store{Client: client, Key: "k"}) }()
		for end := time.Now().Add(patience); len(client.PubSubChannels(ctx, "*").Val()) < 1; {
			if time.Now().After(end) {
				t.Fatal("no subscription")
			}
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Share: %v", err)
		}
		mu.Lock()
		subscriptions := 0
		for _, c := range conns {
			if c.subscribed.Load() {
				subscriptions++
				if !c.closed.Load() {
					t.Error("Share has returned, and its subscription is open")
				}
			}
		}
		mu.Unlock()
		if subscriptions == 0 {
			t.Error("no connection had a subscription: this test shows nothing")
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
