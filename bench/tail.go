package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cristalhq/hedgedhttp"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

// TailPeer is a way to hedge HTTP requests.
type TailPeer struct {
	Name   string
	Client func(base http.RoundTripper) http.RoundTripper
}

// hedgeDelay is what those get that do not measure: the 95th percentile of the server
// below while all is well, and a little.
const hedgeDelay = 15 * time.Millisecond

// TailPeers are the floor, which does not hedge, this library with its zero Hedge,
// and the others, one of them twice: as its documentation begins, and with all that it
// has for this.
var TailPeers = []TailPeer{
	{"no hedge", func(base http.RoundTripper) http.RoundTripper { return base }},
	{"goretry/retryhttp, Hedge{}", func(base http.RoundTripper) http.RoundTripper {
		h := new(hedge.Hedge)
		return &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 1}, Hedge: func(string) *hedge.Hedge { return h }}
	}},
	{"cristalhq/hedgedhttp, 15 ms", func(base http.RoundTripper) http.RoundTripper {
		rt, err := hedgedhttp.NewRoundTripper(hedgeDelay, 2, base)
		if err != nil {
			panic(err)
		}
		return rt
	}},
	{"failsafe-go, 15 ms", func(base http.RoundTripper) http.RoundTripper {
		return failsafehttp.NewRoundTripper(base, hedgepolicy.NewWithDelay[*http.Response](hedgeDelay))
	}},
	{"failsafe-go, quantile and budget", func(base http.RoundTripper) http.RoundTripper {
		return failsafehttp.NewRoundTripper(base, hedgepolicy.NewBuilderWithDelayQuantile[*http.Response](.95, 200, 20).
			WithBudget(budget.NewBuilder().WithMaxRate(.05).WithMinConcurrency(1).Build()).Build())
	}},
}

// TailRow is what a peer's calls met in one phase of all rounds.
type TailRow struct {
	Peer, Phase string
	Calls       int
	Requests    int             // that the server got
	Late, Cut   int             // calls that timed out, and those whose body could not be read to its end
	Times       []time.Duration // sorted
	Open        int             // response bodies not closed when all was over, and some seconds more
	Goroutines  int             // the same of goroutines
}

// At returns a quantile of the calls' times.
func (r *TailRow) At(q float64) time.Duration {
	return r.Times[int(q*float64(len(r.Times)))].Round(time.Millisecond)
}

// Load returns what the server got beyond one request per call, as a fraction.
func (r *TailRow) Load() float64 { return float64(r.Requests)/float64(r.Calls) - 1 }

// tailPhases are what the server does, one after the other.
var tailPhases = []struct {
	name     string
	slowness float64
}{{"normal", 1}, {"2.2 times slower", 2.2}, {"recovered", 1}}

const (
	tailRate    = 200 // calls a second
	tailWorkers = 8
	tailBody    = 1024
)

// Tail makes calls at random times and with a timeout of a second to a server on
// loopback that takes 10 ms, and 50 times as long for one request in a hundred. Each
// phase of a round lasts for d. The peers take turns; each has a server of its own.
func Tail(ctx context.Context, rounds int, d time.Duration, told func(string)) ([]TailRow, error) {
	var rows []TailRow
	for _, p := range TailPeers {
		for _, phase := range tailPhases {
			rows = append(rows, TailRow{Peer: p.Name, Phase: phase.name})
		}
	}
	for range rounds {
		for i, p := range TailPeers {
			told(p.Name)
			if err := tail(ctx, p, d, rows[i*len(tailPhases):][:len(tailPhases)]); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
		}
	}
	for _, r := range rows {
		slices.Sort(r.Times)
	}
	return rows, nil
}

// tail makes a peer's round, and adds it to the rows of its phases.
func tail(ctx context.Context, p TailPeer, d time.Duration, rows []TailRow) error {
	before := runtime.NumGoroutine()
	var requests, open, slowness atomic.Int64 // slowness in tenths
	workers := make(chan struct{}, tailWorkers)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		takes := 10 * time.Millisecond
		if rand.IntN(100) == 0 {
			takes *= 50
		}
		workers <- struct{}{} // it does what it was asked, whether the client still waits or not
		time.Sleep(takes * time.Duration(slowness.Load()) / 10)
		<-workers
		_, _ = io.WriteString(w, strings.Repeat("x", tailBody))
	})}
	go func() { _ = server.Serve(listener) }()
	url := "http://" + listener.Addr().String()

	base := &http.Transport{MaxIdleConnsPerHost: 200}
	client := &http.Client{Transport: p.Client(roundTrip(func(req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil {
			open.Add(1)
			resp.Body = &countedBody{ReadCloser: resp.Body, open: &open}
		}
		return resp, err
	}))}

	for i, phase := range tailPhases {
		slowness.Store(int64(10 * phase.slowness))
		requests.Store(0)
		row := &rows[i]
		var mu sync.Mutex
		var wg sync.WaitGroup
		next := time.Now()
		for end := next.Add(d); next.Before(end) && ctx.Err() == nil; next = next.Add(time.Duration(rand.ExpFloat64() / tailRate * float64(time.Second))) {
			time.Sleep(time.Until(next)) // a late start is made up for
			row.Calls++
			wg.Go(func() {
				began := time.Now()
				late, cut := timed(ctx, client, url)
				mu.Lock()
				defer mu.Unlock()
				row.Times = append(row.Times, time.Since(began))
				row.Late += late
				row.Cut += cut
			})
		}
		wg.Wait()
		row.Requests += int(requests.Load())
	}
	settled(func() bool { return open.Load() == 0 }) // some close what lost on a goroutine of their own
	base.CloseIdleConnections()
	if err := server.Shutdown(ctx); err != nil {
		return err
	}
	settled(func() bool { return runtime.NumGoroutine() <= before })
	for i := range rows {
		rows[i].Open += int(open.Load())
		rows[i].Goroutines += max(runtime.NumGoroutine()-before, 0)
	}
	return ctx.Err()
}

// settled waits for ok, for some seconds.
func settled(ok func() bool) {
	for end := time.Now().Add(5 * time.Second); !ok() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// timed makes one call. It returns 1 for late if the call timed out, and for cut if the
// body ended before it was whole although there was time.
func timed(ctx context.Context, client *http.Client, url string) (late, cut int) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 1, 0 // nothing else fails here
	}
	defer resp.Body.Close()
	switch n, err := io.Copy(io.Discard, resp.Body); {
	case err == nil && n == tailBody:
		return 0, 0
	case ctx.Err() != nil:
		return 1, 0
	}
	return 0, 1
}

// countedBody counts itself out once it is closed.
type countedBody struct {
	io.ReadCloser
	open *atomic.Int64
	once sync.Once
}

func (b *countedBody) Close() error {
	b.once.Do(func() { b.open.Add(-1) })
	return b.ReadCloser.Close()
}

// TailMarkdown returns the rows as a document.
func TailMarkdown(rows []TailRow, rounds int, d time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The tail, beside other libraries

Written by `+"`go run ./bench/cmd/table -tail`"+` on %s: %s, GOMAXPROCS %d, %s. The load average of the machine at the end was %s.
If that is above the number of processors, all times are too long, and rows with a fixed delay hedge more.

%d calls a second at random times, each with a timeout of a second, go to an HTTP server on loopback. It has %d workers that take
10 ms, and 50 times as long for one request in a hundred. It is normal for %v, then as long 2.2 times slower, then normal again.
The table sums up %d rounds, in which the rows take turns. The server finishes each request, even if nobody waits any more.

- load: requests beyond one per call
- late: calls that timed out
- cut: calls whose body ended too soon, before the timeout
- open bodies, goroutines: those left five seconds after the end

Versions:

- github.com/cristalhq/hedgedhttp %s
- github.com/failsafe-go/failsafe-go %s

`, time.Now().Format(time.DateOnly), processor(), runtime.GOMAXPROCS(0), runtime.Version(), loadAverage(), tailRate, tailWorkers, d, rounds,
		versionOf("github.com/cristalhq/hedgedhttp"), versionOf("github.com/failsafe-go/failsafe-go"))
	b.WriteString("| | server | p50, ms | p99, ms | p99.9, ms | load | late | cut | open bodies | goroutines |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range rows {
		percent := func(n int) float64 { return 100 * float64(n) / float64(r.Calls) }
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %+.1f %% | %.1f %% | %.1f %% | %d | %d |\n", r.Peer, r.Phase,
			r.At(.5).Milliseconds(), r.At(.99).Milliseconds(), r.At(.999).Milliseconds(), 100*r.Load(),
			percent(r.Late), percent(r.Cut), r.Open, r.Goroutines)
	}
	return b.String()
}

// loadAverage returns that of the last minute.
func loadAverage() string {
	data, _ := os.ReadFile("/proc/loadavg")
	if first, _, ok := strings.Cut(string(data), " "); ok {
		return first
	}
	return "unknown"
}

// versionOf returns the version of a module in this program.
func versionOf(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}
