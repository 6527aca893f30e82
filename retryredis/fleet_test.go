package retryredis_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryredis"
)

// fleet is members that share a quota by a Redis, whose server takes so many requests in a second, and a fifth of that at once.
// Each has so many callers, who make one call after the other with ten seconds for each.
type fleet struct {
	members, callers int
	rate, told       float64
}

// outcome is what has become of the requests of some seconds.
type outcome struct {
	used    float64 // part of the quota
	refused float64 // part of the requests
	each    []float64
}

func (f fleet) run(t *testing.T, lasts time.Duration) (o outcome) {
	s := start(t)
	var mu sync.Mutex
	level, at, passed, refused := f.rate/5, time.Now(), 0., 0.
	request := func() error {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		level, at = min(level+f.rate*now.Sub(at).Seconds(), f.rate/5), now
		if level < 1 {
			refused++
			return tooMany{}
		}
		level--
		passed++
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	o.each = make([]float64, f.members)
	for i := range f.members {
		model := &pace.Pace{Quota: f.rate * f.told}
		wg.Go(func() { _ = model.Share(ctx, &retryredis.Store{Client: connect(t, s), Key: "quota"}) })
		for range f.callers {
			wg.Go(func() {
				for ctx.Err() == nil {
					call, end := context.WithTimeout(ctx, 10*time.Second)
					err := retry.Run(call, retry.Policy{Guards: []retry.Guard{model}}, func(context.Context) error { return request() })
					end()
					if err == nil {
						mu.Lock()
						o.each[i]++
						mu.Unlock()
					}
				}
			})
		}
	}
	time.Sleep(3 * time.Second)
	mu.Lock()
	begun := time.Now()
	passed, refused = 0, 0
	clear(o.each)
	mu.Unlock()
	time.Sleep(lasts)
	mu.Lock()
	defer mu.Unlock()
	o.used, o.refused = passed/f.rate/time.Since(begun).Seconds(), refused/(passed+refused)
	o.each = slices.Clone(o.each)
	return o
}

func long(t *testing.T) {
	if os.Getenv("RETRY_LONG") != "1" {
		t.Skip("half a minute of real time, on a machine that is not busy: RETRY_LONG=1 runs it")
	}
}

// Equal members get equal parts of a quota of which they want far more.
func TestEqualMembers(t *testing.T) {
	long(t)
	for _, n := range []int{8, 14, 18, 22} {
		o := fleet{n, 20, 25, 1}.run(t, 20*time.Second)
		t.Logf("%d members: %.1f %% of the quota is used, %.1f %% of the requests are refused, each member has from %v to %v", n, 100*o.used, 100*o.refused, slices.Min(o.each), slices.Max(o.each))
		if least := slices.Min(o.each); slices.Max(o.each) > 1.2*least+2 || o.used < .95 || o.refused > .02 {
			t.Errorf("%d members: %v", n, o)
		}
	}
}

// A number that is a tenth too high costs what is refused, and no more.
func TestANumberThatIsTooHigh(t *testing.T) {
	long(t)
	for _, n := range []int{4, 20} {
		o := fleet{n, 20, 50, 1.1}.run(t, 20*time.Second)
		t.Logf("%d members: %.1f %% of the quota is used, %.1f %% of the requests are refused", n, 100*o.used, 100*o.refused)
		if o.used < .97 || o.refused > .12 {
			t.Errorf("%d members: %v", n, o)
		}
	}
}

// Ten a day are ten, however long nobody asks. Redis would remove the key if the script let it expire: the test does so.
func TestTenADay(t *testing.T) {
	client := connect(t, start(t))
	s := &retryredis.Store{Client: client, Key: "k"}
	for _, every := range []time.Duration{11 * time.Minute, time.Hour, 3 * time.Hour} {
		client.Del(t.Context(), "k")
		given := 0.
		for at := time.Duration(0); at < 24*time.Hour; at += every {
			got, err := s.ReserveAt(t.Context(), 1.7e9+at.Seconds(), pace.Ask{Rate: 10. / 86400, Burst: 1, Want: 1, Least: 1, Patience: 1})
			if err != nil {
				t.Fatal(err)
			}
			given += got.N
			if ttl := client.PTTL(t.Context(), "k").Val(); ttl < every {
				client.Del(t.Context(), "k")
			}
		}
		if given < 7 || given > 10 {
			t.Errorf("asked every %v: %v slots in a day, want ten", every, given)
		}
	}
}
