// Quota calls a server that takes 20 requests in a second and answers all others with
// 429. Fifty goroutines make 200 calls, each a POST that may run twice: first with a
// policy alone, then with a [pace.Pace] that they share, and that is told the quota. It
// shows side by side how many calls failed, and how many requests were answered with 429.
// From the root of the repository:
//
//	go run ./examples/quota
//
// It takes about twelve seconds. It exits with code 1 if the pace did not help.
//
// With -processes it starts so many processes for 100 seconds instead, each with an equal part of the
// quota. With -redis they share it by a Redis that the program starts (redis-server must be
// installed), kills after 40 seconds, and starts again, empty, 20 seconds later; -steady leaves it
// alone. It prints every ten seconds what an operator sees:
//
//	go run ./examples/quota -processes 20
//	go run ./examples/quota -processes 20 -redis            # -load 0.8: with fewer calls than the quota allows
//	go run ./examples/quota -processes 20 -redis -kill      # the first process too, which has a thousand calls
//	go run ./examples/quota -processes 20 -redis -empty     # the Redis loses all keys and scripts every ten seconds instead
//	go run ./examples/quota -processes 20 -redis -sentinel  # with a replica and Sentinels: the master is killed
//
// With -compare they run with other clients too, each for a minute. That takes a quarter of an hour:
//
//	go run ./examples/quota -processes 20 -compare
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

func main() {
	if employed() {
		return
	}
	f := fleet{client: "pace of its share", lasts: 100 * time.Second, every: 10 * time.Second}
	flag.IntVar(&f.processes, "processes", 0, "start so many `processes`")
	flag.Float64Var(&f.load, "load", 1.5, "the calls, as a `multiple` of the quota")
	flag.BoolVar(&f.redis, "redis", false, "share the quota by a Redis")
	flag.BoolVar(&f.sentinel, "sentinel", false, "the Redis has a replica and Sentinels")
	steady := flag.Bool("steady", false, "do not kill the Redis")
	empty := flag.Bool("empty", false, "do not kill the Redis, but empty it every ten seconds")
	kill := flag.Bool("kill", false, "kill the first process after 20 seconds, which has 1000 more calls")
	compares := flag.Bool("compare", false, "compare with other clients")
	flag.Parse()
	if f.redis {
		f.client = "shared pace"
	}
	if !*steady && !*empty {
		f.dies, f.back = 40*time.Second, 60*time.Second
	}
	if *empty {
		f.emptied = 10 * time.Second
	}
	if *kill {
		f.kills = 20 * time.Second
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	show := func() error { return run(os.Stdout) }
	switch {
	case *compares:
		show = func() error { return compareClients(ctx, os.Stdout, max(f.processes, 1), time.Minute) }
	case f.processes > 0:
		show = func() error { _, err := f.run(ctx, os.Stdout); return err }
	}
	if err := show(); err != nil {
		fmt.Fprintln(os.Stderr, "quota:", err)
		os.Exit(1)
	}
}

const (
	callers = 50
	each    = 4 // calls of a caller, one after the other
	calls   = callers * each
)

func run(w io.Writer) error {
	fmt.Fprintf(w, "%d calls from %d goroutines; the server takes %d requests in a second\n\n", calls, callers, perSecond)
	without, err := load(w, nil)
	if err != nil {
		return err
	}
	// The whole of it: one Pace for all calls that count against the same quota.
	with, err := load(w, &pace.Pace{Quota: perSecond})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%-16s %14s %10s\n", "", "without a pace", "with one")
	for _, row := range []struct {
		what          string
		without, with any
	}{
		{"calls that fail", without.failed, with.failed},
		{"requests", without.requests, with.requests},
		{"answered 429", without.throttled, with.throttled},
		{"seconds", fmt.Sprintf("%.1f", without.took.Seconds()), fmt.Sprintf("%.1f", with.took.Seconds())},
	} {
		fmt.Fprintf(w, "%-16s %14v %10v\n", row.what, row.without, row.with)
	}
	return compare(without, with)
}

// compare returns an error unless next to no call failed with the pace and next to no request was
// answered 429, and most calls failed without it.
func compare(without, with figures) error {
	if with.failed > calls/20 || with.throttled > calls/20 || without.failed < calls/2 {
		return fmt.Errorf("with the pace %d calls failed and %d requests were answered 429, without it %d and %d",
			with.failed, with.throttled, without.failed, without.throttled)
	}
	return nil
}

// figures are what became of the calls.
type figures struct {
	failed, requests, throttled int
	took                        time.Duration
}

// load makes all calls, under a pace if there is one, and prints what the pace does.
func load(w io.Writer, pace *pace.Pace) (figures, error) {
	s, err := listen()
	if err != nil {
		return figures{}, err
	}
	defer s.Close()
	transport := &retryhttp.Transport{
		Base:   s.transport,
		Policy: retry.Policy{Name: "complete", MaxAttempts: 10, Budget: &retry.EarnedBudget{}, Guards: []retry.Guard{pace}},
	}
	client := &http.Client{Transport: transport}

	start := time.Now()
	var failed atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if err := post(client, s.url); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	if pace != nil {
		watch(w, pace, done)
	}
	<-done
	requests, throttled := s.counts()
	return figures{int(failed.Load()), requests, throttled, time.Since(start)}, nil
}

// post makes a call. It may run twice: the second run costs, and does nothing else.
func post(client *http.Client, url string) error {
	ctx := retryhttp.Idempotent(context.Background(), true)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("Greet me."))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := retryhttp.GaveUp(resp); err != nil {
		return fmt.Errorf("status %s: %w", resp.Status, err)
	}
	if resp.StatusCode != http.StatusOK {
		return retryhttp.Failure(resp)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// watch prints the pace once a second until done is closed.
func watch(w io.Writer, pace *pace.Pace, done <-chan struct{}) {
	fmt.Fprintf(w, "%6s  the pace\n", "second")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for second := 1; ; second++ {
		select {
		case <-tick.C:
		case <-done:
			fmt.Fprintln(w)
			return
		}
		fmt.Fprintf(w, "%6d  %.0f attempts in a second; one that comes now waits %v\n", second, pace.Rate(), pace.Wait().Round(100*time.Millisecond))
	}
}
