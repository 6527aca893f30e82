// Tail calls a server whose every hundredth response takes fifty times as long as the
// others: first without hedges, then with package hedge. It shows side by side how
// long the calls took, and how many more requests the server got. Then the server gets
// three times slower, and the hedges stop by themselves: their delay follows the
// server, and until then their budget refuses them. From the root of the repository:
//
//	go run ./examples/tail
//
// It takes half a minute; -for sets how long each part lasts. It exits with code 1
// if hedging did not cut the tail.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
)

func main() {
	d := flag.Duration("for", 10*time.Second, "how long each part lasts")
	flag.Parse()
	if err := run(os.Stdout, *d); err != nil {
		fmt.Fprintln(os.Stderr, "tail:", err)
		os.Exit(1)
	}
}

const (
	rate   = 200                    // calls a second
	answer = 10 * time.Millisecond  // how long the server takes,
	slow   = 500 * time.Millisecond // and how long for every hundredth request
)

func run(w io.Writer, d time.Duration) error {
	s, err := listen()
	if err != nil {
		return err
	}
	defer s.Close()

	// The whole of it: one Hedge for all calls of this kind. Hedged is for the
	// figures of the last part.
	var counts hedges
	h := &hedge.Hedge{Hedged: counts.add}
	policy := retry.Policy{Name: "get-page", MaxAttempts: 3}
	plain := func(ctx context.Context) error {
		_, err := retry.Do(ctx, policy, s.get)
		return err
	}
	hedged := func(ctx context.Context) error {
		_, err := hedge.Do(ctx, policy, h, s.get)
		return err
	}

	fmt.Fprintf(w, "%d calls a second; every 100th answer takes %v, the others %v\n\n", rate, slow, answer)
	without := load(s, plain, d)
	with := load(s, hedged, d)
	sideBySide(w, without, with)

	fmt.Fprintf(w, "\nNow the server is three times slower. Second by second:\n\n")
	fmt.Fprintf(w, "%6s %6s %8s %8s %10s\n", "second", "calls", "hedges", "refused", "delay")
	s.slowness.Store(3)
	counts.take()
	var all figures
	for second := 1; time.Duration(second)*time.Second <= max(d, time.Second); second++ {
		got := load(s, hedged, time.Second)
		started, refused := counts.take()
		fmt.Fprintf(w, "%6d %6d %8d %8d %10v\n", second, len(got.times), started, refused, h.Wait().Round(time.Millisecond))
		all.requests += got.requests
		all.times = append(all.times, got.times...)
	}
	fmt.Fprintf(w, "\nLoad while slow: %+.1f %%\n", 100*all.load())

	if slowCalls(with) >= slowCalls(without) {
		return fmt.Errorf("%w: %d calls took as long as a slow answer, %d without hedges", errNoGain, slowCalls(with), slowCalls(without))
	}
	return nil
}

// errNoGain may also mean that the machine is too busy for times of milliseconds.
var errNoGain = errors.New("hedges did not help")

// hedges counts what became of the calls that were slow.
type hedges struct {
	mu               sync.Mutex
	started, refused int
}

func (c *hedges) add(_ context.Context, s hedge.Summary) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started += s.Started - 1
	if s.Started == 1 && s.Refused != nil {
		c.refused++
	}
}

// take returns the counts since the last time.
func (c *hedges) take() (started, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	started, refused = c.started, c.refused
	c.started, c.refused = 0, 0
	return started, refused
}

// figures are what a part of the program has measured.
type figures struct {
	times    []time.Duration
	failed   int
	requests int // that the server got
}

func (f figures) load() float64 { return float64(f.requests)/float64(len(f.times)) - 1 }

// slowCalls returns how many calls took nearly as long as a slow answer.
func slowCalls(f figures) (n int) {
	for _, t := range f.times {
		if t > slow*9/10 {
			n++
		}
	}
	return n
}

// load makes calls for d, and waits for them.
func load(s *server, call func(context.Context) error, d time.Duration) (f figures) {
	before := s.requests.Load()
	var wg sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	for n := range int(d * rate / time.Second) {
		time.Sleep(time.Until(start.Add(time.Duration(n) * time.Second / rate)))
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			began := time.Now()
			err := call(ctx)
			mu.Lock()
			defer mu.Unlock()
			f.times = append(f.times, time.Since(began))
			if err != nil {
				f.failed++
			}
		})
	}
	wg.Wait()
	f.requests = int(s.requests.Load() - before)
	return f
}

// sideBySide draws two histograms. A bar's length is the logarithm of its count: of
// what a tail is made there is little.
func sideBySide(w io.Writer, without, with figures) {
	bounds := []time.Duration{12, 15, 20, 30, 50, 100, 200, 400, 800, 5000}
	fmt.Fprintf(w, "%8s   %-30s   %-30s\n", "up to", "without hedges", "with hedges")
	for i, b := range bounds {
		low := time.Duration(0)
		if i > 0 {
			low = bounds[i-1] * time.Millisecond
		}
		b *= time.Millisecond
		fmt.Fprintf(w, "%8v   %-30s   %-30s\n", b, bar(without, low, b), bar(with, low, b))
	}
	fmt.Fprintf(w, "%8s   %-30s   %-30s\n", "load", fmt.Sprintf("%+.1f %%", 100*without.load()), fmt.Sprintf("%+.1f %%", 100*with.load()))
	fmt.Fprintf(w, "%8s   %-30d   %-30d\n", "failed", without.failed, with.failed)
}

func bar(f figures, low, high time.Duration) string {
	n, length := 0, 0
	for _, t := range f.times {
		if t > low && t <= high {
			n++
		}
	}
	for rest := n; rest > 0; rest /= 2 {
		length++
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d", strings.Repeat("█", 2*length), n)
}

// get is the op: one request, with its body read, so that nothing needs the
// attempt's context any more.
func (s *server) get(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return "", retry.Stop(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", resp.Status)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
