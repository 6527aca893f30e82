package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	quota   = 25 // requests in a second
	callers = 6  // processes
)

// provider is a server whose quota is a bucket of five requests.
type provider struct {
	url string

	mu              sync.Mutex
	left            float64
	at              time.Time
	passed, refused int
}

func startProvider(t *testing.T) *provider {
	p := &provider{at: time.Now()}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		now := time.Now()
		p.left, p.at = min(5, p.left+quota*now.Sub(p.at).Seconds()), now
		if p.left < 1 {
			p.refused++
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		p.left--
		p.passed++
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// counts returns the requests that passed, and those that were refused.
func (p *provider) counts() (passed, refused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed, p.refused
}

// report is what a process says of its pace.
type report struct {
	Shared    bool
	Err       string
	Exchanges uint64
}

// callQuota is the process of a caller: together they make half more calls than the quota allows.
func callQuota() {
	nc, err := nats.Connect(os.Getenv("RETRYNATS_TEST_NATS"), nats.MaxReconnects(-1), nats.ReconnectWait(50*ms))
	if err != nil {
		panic(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	kv, err := js.KeyValue(ctx, "paces")
	if err != nil {
		panic(err)
	}
	model := &pace.Pace{Quota: quota}
	go model.Share(ctx, &retrynats.Store{KV: kv, Key: "model"})
	client := &http.Client{Timeout: 20 * time.Second, Transport: &retryhttp.Transport{Policy: retry.Policy{
		MaxAttempts: 5, Budget: &retry.EarnedBudget{}, Guards: []retry.Guard{model},
	}}}
	go func() {
		for ; ; time.Sleep(50 * ms) {
			s := model.Status()
			r := report{Shared: s.Shared, Exchanges: s.Exchanges}
			if s.Err != nil {
				r.Err = s.Err.Error()
			}
			text, _ := json.Marshal(r)
			fmt.Println(string(text))
		}
	}()
	for {
		time.Sleep(time.Duration(rand.ExpFloat64() * callers / (1.5 * quota) * 1e9))
		go func() {
			resp, err := client.Get(os.Getenv("RETRYNATS_TEST_PROVIDER"))
			if err == nil {
				resp.Body.Close()
			}
		}()
	}
}

// processes are callers, by what each has said last.
type processes []*atomic.Pointer[report]

func startCallers(t *testing.T, p *provider, urls ...string) (all processes) {
	for range callers {
		_, lines := child(t, "quota caller", "RETRYNATS_TEST_PROVIDER="+p.url, "RETRYNATS_TEST_NATS="+strings.Join(urls, ","))
		last := new(atomic.Pointer[report])
		last.Store(new(report))
		all = append(all, last)
		go func() {
			for line := range lines {
				var r report
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Errorf("a process says %q", line)
				}
				last.Store(&r)
			}
		}()
	}
	return all
}

func (all processes) are(is func(report) bool) bool {
	for _, p := range all {
		if !is(*p.Load()) {
			return false
		}
	}
	return true
}

func (all processes) exchanges() (n uint64) {
	for _, p := range all {
		n += p.Load().Exchanges
	}
	return n
}

// share waits until all processes share, and then looks at the answers of the next n requests.
func (all processes) share(t *testing.T, what string, p *provider, n int) {
	t.Helper()
	start := time.Now()
	eventually(t, "shared", func() bool { return all.are(func(r report) bool { return r.Shared && r.Err == "" }) })
	after := time.Since(start)
	if what != "" {
		what = ", " + what
		time.Sleep(time.Second) // what started alone may still be refused
	}
	passed, refused := p.counts()
	asked, start := all.exchanges(), time.Now()
	eventually(t, "answered", func() bool { ok, _ := p.counts(); return ok >= passed+n })
	ok, no := p.counts()
	ok, no = ok-passed, no-refused
	took := time.Since(start)
	t.Logf("all share after %.1f s%s: %d requests, %.1f %% of them 429, goodput %.0f %%, %.1f exchanges each",
		after.Seconds(), what, ok+no, 100*float64(no)/float64(ok+no), 100*float64(ok)/quota/took.Seconds(), float64(all.exchanges()-asked)/float64(ok+no))
	if no > (ok+no)/50 {
		t.Errorf("%d of %d requests are answered 429", no, ok+no)
	}
}

// Processes that share a quota by a real server get next to no 429. While the server is away, they
// go on, and say why.
func TestProcessesShareAQuota(t *testing.T) {
	t.Parallel() // it mostly waits
	n := 250
	if testing.Short() {
		n = 50
	}
	t.Run("one server", func(t *testing.T) {
		c := startServers(t, 1)
		js := connect(t, c.urls...)
		makeBucket(t, js, jetstream.KeyValueConfig{Bucket: "paces", TTL: time.Hour}) // in a file, which outlives the server
		p := startProvider(t)
		all := startCallers(t, p, c.urls...)
		all.share(t, "", p, n)
		name := c.names()[0]
		c.kill(t, name)
		eventually(t, "alone", func() bool { return all.are(func(r report) bool { return !r.Shared && r.Err != "" }) })
		before, refused := p.counts()
		eventually(t, "answered while alone", func() bool { ok, _ := p.counts(); return ok > before+n/3 })
		passed, no := p.counts()
		t.Logf("without the server: %d requests pass, %d are answered 429; a process says %q", passed-before, no-refused, all[0].Load().Err)
		c.start(t, c.configs[name])
		c.ready(t, name)
		all.share(t, "since the server is back", p, n)
		if err := js.DeleteKeyValue(t.Context(), "paces"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "alone without the bucket", func() bool { return all.are(func(r report) bool { return !r.Shared && r.Err != "" }) })
		t.Logf("without the bucket a process says %q", all[0].Load().Err)
		makeBucket(t, js, jetstream.KeyValueConfig{Bucket: "paces", TTL: time.Hour})
		all.share(t, "since there is a bucket", p, n)
	})
	t.Run("a cluster", func(t *testing.T) {
		c := startServers(t, 3)
		js := connect(t, c.urls...)
		makeBucket(t, js, jetstream.KeyValueConfig{Bucket: "paces", TTL: time.Hour, Storage: jetstream.MemoryStorage, Replicas: 3})
		p := startProvider(t)
		all := startCallers(t, p, c.urls...)
		all.share(t, "", p, n)
		s, err := js.Stream(t.Context(), "KV_paces")
		if err != nil {
			t.Fatal(err)
		}
		passed, refused := p.counts()
		c.kill(t, s.CachedInfo().Cluster.Leader)
		eventually(t, "answered after the leader", func() bool { ok, _ := p.counts(); return ok > passed+n/3 })
		ok, no := p.counts()
		t.Logf("as the leader is killed: %d requests pass, %d are answered 429", ok-passed, no-refused)
		all.share(t, "since another leads", p, n)
	})
}

func makeBucket(t *testing.T, js jetstream.JetStream, conf jetstream.KeyValueConfig) {
	t.Helper()
	if err := retry.Run(t.Context(), leaderless, func(ctx context.Context) error {
		_, err := js.CreateOrUpdateKeyValue(ctx, conf)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// An entry that is another program's stops nobody, and stays as it is.
func TestForeignEntry(t *testing.T) {
	js, _ := single(t)
	kv, err := js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "paces"})
	if err != nil {
		t.Fatal(err)
	}
	model := &pace.Pace{Quota: 1000}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- model.Share(ctx, &retrynats.Store{KV: kv, Key: "model"}) }()
	until := func(what string, is func(pace.Status) bool) {
		t.Helper()
		eventually(t, what, func() bool {
			if err := retry.Run(ctx, retry.Policy{Guards: []retry.Guard{model}}, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			return is(model.Status())
		})
	}
	shared := func(s pace.Status) bool { return s.Shared && s.Err == nil }
	until("shared", shared)
	if _, err := kv.PutString(t.Context(), "model", "another program's"); err != nil {
		t.Fatal(err)
	}
	until("alone", func(s pace.Status) bool {
		return !s.Shared && s.Err != nil && strings.Contains(s.Err.Error(), "holds no quota")
	})
	if e, err := kv.Get(t.Context(), "model"); err != nil || string(e.Value()) != "another program's" {
		t.Errorf("the entry is %v, %v", e, err)
	}
	for what, remove := range map[string]func(context.Context, string, ...jetstream.KVDeleteOpt) error{"purged": kv.Purge, "deleted": kv.Delete} {
		if err := remove(t.Context(), "model"); err != nil {
			t.Fatal(err)
		}
		until("shared when it is "+what, shared)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
