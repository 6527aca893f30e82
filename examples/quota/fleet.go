package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// fleet is a run of several processes of one quota.
type fleet struct {
	client     string // the name of one of clients
	processes  int
	load       float64       // calls, as a multiple of the quota
	redis      bool          // there is one
	sentinel   bool          // with a replica
	lasts      time.Duration // the run
	dies, back time.Duration // of the Redis, or its master: when it is killed, and started again; 0: never
	emptied    time.Duration // how often the Redis is; 0: never
	kills      time.Duration // when the first process is killed, which has 1000 more calls; 0: never
	every      time.Duration // a line is printed
}

const patience = 20 * time.Second // of a caller

// errNoRedis says that a fleet cannot run here.
var errNoRedis = errors.New("redis-server is not installed")

// run starts the server and the processes, and prints what an operator sees.
func (f fleet) run(ctx context.Context, w io.Writer) (out outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := listen()
	if err != nil {
		return out, err
	}
	defer s.Close()
	fmt.Fprintf(w, "%d processes; the server takes %d requests in a second, and they make %.0f calls\n", f.processes, perSecond, f.load*perSecond)
	share := perSecond / float64(f.processes)
	j := job{URL: s.url, Client: f.client, Rate: f.load * share, Share: share}
	var store *redisServers
	if f.redis {
		if store, err = startRedis(ctx, f.sentinel); errors.Is(err, exec.ErrNotFound) {
			return out, errNoRedis
		} else if err != nil {
			return out, err
		}
		defer store.close()
		j.Redis, j.Master = store.addrs, store.master
	}
	var workers []*worker
	for i := range f.processes {
		j := j
		if i == 0 && f.kills > 0 {
			j.More = 1000
		}
		o, err := startWorker(ctx, j)
		if err != nil {
			return out, err
		}
		defer o.stop()
		workers = append(workers, o)
	}
	var dies, back, kills, empty <-chan time.Time
	if store != nil && f.dies > 0 {
		dies, back = time.After(f.dies), time.After(f.back)
	}
	if store != nil && f.emptied > 0 {
		empty = time.Tick(f.emptied)
	}
	if f.kills > 0 {
		kills = time.After(f.kills)
	}
	fmt.Fprintf(w, "\n%8s %9s %6s %5s %6s %6s %11s  %s\n", "seconds", "requests", "429", "", "calls", "failed", "rate", "paces")
	tick, look, end, begin := time.NewTicker(f.every), time.NewTicker(time.Second/4), time.After(f.lasts), time.Now()
	defer tick.Stop()
	defer look.Stop()
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "%8.0f %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	promoted := make(chan error, 1)
	var died time.Time // the Redis; zero once all share again
	apart := false     // some have not shared since
	var before outcome
	for {
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-dies:
			store.kill()
			died, apart = time.Now(), false
			if f.sentinel {
				say("the master is killed")
				go func() { promoted <- store.promoted(ctx) }()
			} else {
				say("the Redis is killed")
			}
		case err := <-promoted:
			if err != nil {
				return out, err
			}
			say("the Sentinels have a new master, after %.1f s", time.Since(died).Seconds())
		case <-back:
			if err := store.run(ctx, store.ports[0]); err != nil {
				return out, err
			}
			say("it is back, and empty")
		case <-empty:
			if err := store.empty(ctx); err != nil {
				return out, err
			}
			say("FLUSHALL and SCRIPT FLUSH")
		case <-kills:
			_ = workers[0].cmd.Process.Kill()
			workers = workers[1:]
			say("a process with a thousand calls is killed")
		case <-look.C:
			switch all := !slices.ContainsFunc(workers, func(o *worker) bool { return o.seen().state != "shared" }); {
			case died.IsZero():
			case !all:
				apart = true
			case apart:
				say("all share again, %.1f s after it was killed", time.Since(died).Seconds())
				died = time.Time{}
			}
		case <-tick.C:
			now := sum(s, workers)
			requests, throttled := now.requests-before.requests, now.throttled-before.throttled
			fmt.Fprintf(w, "%8.0f %9d %6d %4.1f%% %6d %6d %s\n", time.Since(begin).Seconds(), requests, throttled, percent(throttled, requests),
				now.calls-before.calls, now.failed-before.failed, paces(workers))
			before = now
		case <-end:
			out = sum(s, workers)
			if store != nil {
				out.scripts = store.scripts(ctx)
			}
			fmt.Fprintf(w, "\n%d requests, of which %d were answered 429: %.1f%%; %d calls, of which %d failed: %.1f%%\n",
				out.requests, out.throttled, percent(out.throttled, out.requests), out.calls, out.failed, percent(out.failed, out.calls))
			if out.requests == 0 {
				return out, errors.New("no process made a request")
			}
			return out, nil
		}
	}
}

// outcome is what became of the calls that have ended, and of all requests.
type outcome struct {
	requests, throttled int
	calls, failed       int
	waits               []float64 // seconds that the other calls took longer than the server, in order
	each                []float64 // how many those of each process are
	scripts             int       // calls of a script of the Redis
}

func sum(s *server, workers []*worker) (o outcome) {
	o.requests, o.throttled = s.counts()
	for _, w := range workers {
		seen := w.seen()
		o.failed += seen.failed
		o.calls += seen.failed + len(seen.waits)
		o.waits = append(o.waits, seen.waits...)
		o.each = append(o.each, float64(len(seen.waits)))
	}
	slices.Sort(o.waits)
	return o
}

func percent(part, of int) float64 { return 100 * float64(part) / float64(max(of, 1)) }

// paces returns what an operator sees of all paces.
func paces(workers []*worker) string {
	counts := make(map[string]int)
	var rates []float64
	for _, o := range workers {
		is := o.seen()
		counts[is.state]++
		if is.rate > 0 {
			rates = append(rates, is.rate)
		}
	}
	rate := "no pace"
	if len(rates) > 0 {
		slices.Sort(rates)
		rate = fmt.Sprintf("%.2f/s", rates[len(rates)/2])
	}
	text := fmt.Sprintf("%11s ", rate)
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(" %d %s", counts[state], cmp.Or(state, "silent"))
	}
	return text
}

// worker is a process as its parent sees it.
type worker struct {
	cmd   *exec.Cmd
	stdin io.Closer

	mu   sync.Mutex
	said said
}

// said is what a process has said.
type said struct {
	rate   float64 // of its pace; 0: none
	state  string  // of its pace
	failed int     // calls
	waits  []float64
}

func startWorker(ctx context.Context, j job) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	o := &worker{cmd: exec.CommandContext(ctx, self)}
	o.cmd.Env = append(os.Environ(), jobOf+"="+string(text))
	o.cmd.Stderr = os.Stderr
	if o.stdin, err = o.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			o.hear(lines.Text())
		}
	}()
	return o, nil
}

// hear notes a line of the process.
func (o *worker) hear(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	what, rest, _ := strings.Cut(line, " ")
	switch what {
	case "pace":
		_, _ = fmt.Sscan(rest, &o.said.rate, &o.said.state)
	case "call":
		var ok bool
		var wait float64
		if _, _ = fmt.Sscan(rest, &ok, &wait); ok {
			o.said.waits = append(o.said.waits, wait)
		} else {
			o.said.failed++
		}
	}
}

func (o *worker) seen() said {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said
}

// stop ends a worker: by the end of its input, which it would see if this process died too.
func (o *worker) stop() {
	_ = o.stdin.Close()
	_ = o.cmd.Wait()
}
