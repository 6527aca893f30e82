package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryredis"
	"github.com/redis/go-redis/v9"
)

// fleet is a run of several processes of one quota.
type fleet struct {
	processes  int
	shared     bool          // by a Redis
	lasts      time.Duration // the run
	dies, back time.Duration // of the Redis: when it is killed, and started again; 0: never
	kills      time.Duration // when the first process is killed, which has 1000 more calls; 0: never
	every      time.Duration // a line is printed
}

const (
	offered  = 1.5              // calls, as a multiple of the quota
	patience = 20 * time.Second // of a caller
)

// run starts the server and the processes, and prints what an operator sees.
func (f fleet) run(ctx context.Context, w io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := listen()
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintf(w, "%d processes; the server takes %d requests in a second, and they make %.0f calls\n", f.processes, perSecond, offered*perSecond)
	var store *redisServer
	if f.shared {
		if store, err = startRedis(ctx); errors.Is(err, exec.ErrNotFound) {
			fmt.Fprintln(w, "redis-server is not installed: each process learns alone")
		} else if err != nil {
			return err
		} else {
			defer store.kill()
		}
	}
	var workers []*worker
	for i := range f.processes {
		more := 0
		if i == 0 && f.kills > 0 {
			more = 1000
		}
		o, err := startWorker(ctx, s.url, f.processes, more, store)
		if err != nil {
			return err
		}
		defer o.stop()
		workers = append(workers, o)
	}
	var dies, back, kills <-chan time.Time
	if store != nil && f.dies > 0 {
		dies, back = time.After(f.dies), time.After(f.back)
	}
	if f.kills > 0 {
		kills = time.After(f.kills)
	}
	fmt.Fprintf(w, "\n%8s %9s %6s %5s %11s  %s\n", "seconds", "requests", "429", "", "rate", "paces")
	tick, end, begin := time.NewTicker(f.every), time.After(f.lasts), time.Now()
	defer tick.Stop()
	var total, refused int
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-dies:
			store.kill()
			fmt.Fprintf(w, "%8.0f the Redis is killed\n", time.Since(begin).Seconds())
		case <-back:
			if err := store.run(ctx); err != nil {
				return err
			}
			fmt.Fprintf(w, "%8.0f it is back, and empty\n", time.Since(begin).Seconds())
		case <-kills:
			_ = workers[0].cmd.Process.Kill()
			workers = workers[1:]
			fmt.Fprintf(w, "%8.0f a process with a thousand calls is killed\n", time.Since(begin).Seconds())
		case <-tick.C:
			requests, throttled := s.counts()
			n, t := requests-total, throttled-refused
			total, refused = requests, throttled
			fmt.Fprintf(w, "%8.0f %9d %6d %4.1f%% %s\n", time.Since(begin).Seconds(), n, t, percent(t, n), seen(workers))
		case <-end:
			requests, throttled := s.counts()
			fmt.Fprintf(w, "\n%d requests, of which %d were answered 429: %.1f%%\n", requests, throttled, percent(throttled, requests))
			if requests == 0 {
				return errors.New("no process made a request")
			}
			return nil
		}
	}
}

func percent(part, of int) float64 { return 100 * float64(part) / float64(max(of, 1)) }

// seen returns what an operator sees of all paces.
func seen(workers []*worker) string {
	counts := make(map[string]int)
	var rates []float64
	for _, o := range workers {
		is := o.latest()
		counts[is.state]++
		if is.rate > 0 {
			rates = append(rates, is.rate)
		}
	}
	rate := "open"
	if len(rates) > 0 {
		slices.Sort(rates)
		rate = fmt.Sprintf("%.2f/s", rates[len(rates)/2])
	}
	text := fmt.Sprintf("%11s ", rate)
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(" %d %s", counts[state], state)
	}
	return text
}

// worker is a process as its parent sees it.
type worker struct {
	cmd   *exec.Cmd
	stdin io.Closer

	mu sync.Mutex
	is said
}

// said is what a process says once a second.
type said struct {
	rate  float64 // 0: open
	state string  // of its pace
}

// In the environment, these have the program be a worker.
const (
	urlOf       = "QUOTA_URL"       // of the server
	redisOf     = "QUOTA_REDIS"     // address of the Redis; empty: none
	processesOf = "QUOTA_PROCESSES" // how many there are
	moreOf      = "QUOTA_MORE"      // calls that the process has from the start
)

func startWorker(ctx context.Context, url string, processes, more int, store *redisServer) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := &worker{cmd: exec.CommandContext(ctx, self)}
	o.cmd.Env = append(os.Environ(), urlOf+"="+url, fmt.Sprintf("%s=%d", processesOf, processes), fmt.Sprintf("%s=%d", moreOf, more))
	if store != nil {
		o.cmd.Env = append(o.cmd.Env, redisOf+"="+store.addr)
	}
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
			var is said
			if _, err := fmt.Sscan(lines.Text(), &is.rate, &is.state); err == nil {
				o.mu.Lock()
				o.is = is
				o.mu.Unlock()
			}
		}
	}()
	return o, nil
}

func (o *worker) latest() said {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.is
}

// stop ends a worker: by the end of its input, which it would see if this process died too.
func (o *worker) stop() {
	_ = o.stdin.Close()
	_ = o.cmd.Wait()
}

// work is what a worker does until its input ends: calls at random times, of which it does not
// know how many others make.
func work(url, addr string, processes, more int, in io.Reader, out io.Writer) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, in); cancel() }()
	var model pace.Pace
	if addr != "" {
		redis.SetLogger(silent{})
		store := redis.NewClient(&redis.Options{Addr: addr})
		defer store.Close()
		// The whole of it: the quota, and one key for all processes whose calls count against it.
		model.Quota = perSecond
		go model.Share(ctx, &retryredis.Store{Client: store, Key: "provider/model/key"})
	}
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	client := &http.Client{Timeout: patience, Transport: &retryhttp.Transport{
		Base:   transport,
		Policy: retry.Policy{Name: "complete", MaxAttempts: 10, Guards: []retry.Guard{&model}},
	}}
	go func() {
		for clock := time.NewTicker(time.Second); ctx.Err() == nil; <-clock.C {
			fmt.Fprintln(out, rateOf(&model), stateOf(&model))
		}
	}()
	for range more {
		go func() {
			for ctx.Err() == nil && post(client, url) != nil {
			}
		}()
	}
	gap := float64(processes) * float64(time.Second) / (offered * perSecond)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.ExpFloat64() * gap)):
			go post(client, url) // whose failures the server's figures show
		}
	}
}

// silent is a log that nobody reads: the pace's Status says what the Redis does.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func rateOf(p *pace.Pace) float64 {
	if rate := p.Rate(); !math.IsInf(rate, 1) {
		return rate
	}
	return 0
}

func stateOf(p *pace.Pace) string {
	switch s := p.Status(); {
	case s.Shared:
		return "shared"
	case s.Err != nil:
		return "alone"
	case s.Quota > 0:
		return "starting"
	}
	return "learning"
}

// redisServer is a Redis of this program's own, which keeps nothing.
type redisServer struct {
	addr, port string
	cmd        *exec.Cmd
}

func startRedis(ctx context.Context) (*redisServer, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &redisServer{addr: l.Addr().String()}
	_, s.port, _ = net.SplitHostPort(s.addr)
	_ = l.Close()
	return s, s.run(ctx)
}

// run starts the server, and returns when it answers.
func (s *redisServer) run(ctx context.Context) error {
	s.cmd = exec.CommandContext(ctx, "redis-server", "--port", s.port, "--bind", "127.0.0.1", "--save", "", "--dir", os.TempDir())
	if err := s.cmd.Start(); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	defer client.Close()
	starting := retry.Policy{Name: "redis", MaxAttempts: retry.Unlimited, MaxElapsed: 10 * time.Second, Backoff: retry.Constant(20 * time.Millisecond)}
	return retry.Run(ctx, starting, func(ctx context.Context) error { return client.Ping(ctx).Err() })
}

func (s *redisServer) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// asked reports whether this process is a worker, and works if it is.
func asked() bool {
	url := os.Getenv(urlOf)
	if url == "" {
		return false
	}
	var processes, more int
	_, _ = fmt.Sscan(os.Getenv(processesOf), &processes)
	_, _ = fmt.Sscan(os.Getenv(moreOf), &more)
	work(url, os.Getenv(redisOf), cmp.Or(processes, 1), more, os.Stdin, os.Stdout)
	return true
}
