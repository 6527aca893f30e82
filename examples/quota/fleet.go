package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// fleet is a run of several processes of one quota.
type fleet struct {
	processes int
	lasts     time.Duration // the run
	every     time.Duration // a line is printed
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
	var workers []*worker
	for range f.processes {
		o, err := startWorker(ctx, s.url, f.processes)
		if err != nil {
			return err
		}
		defer o.stop()
		workers = append(workers, o)
	}
	fmt.Fprintf(w, "\n%8s %9s %6s %5s %11s\n", "seconds", "requests", "429", "", "rate")
	tick, end, begin := time.NewTicker(f.every), time.After(f.lasts), time.Now()
	defer tick.Stop()
	var total, refused int
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
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

// seen returns the median of the paces' rates.
func seen(workers []*worker) string {
	var rates []float64
	for _, o := range workers {
		if rate := o.latest(); rate > 0 {
			rates = append(rates, rate)
		}
	}
	rate := "open"
	if len(rates) > 0 {
		slices.Sort(rates)
		rate = fmt.Sprintf("%.2f/s", rates[len(rates)/2])
	}
	return fmt.Sprintf("%11s", rate)
}

// worker is a process as its parent sees it.
type worker struct {
	cmd   *exec.Cmd
	stdin io.Closer

	mu   sync.Mutex
	rate float64 // as the process says once a second; 0: open
}

// In the environment, these have the program be a worker.
const (
	urlOf       = "QUOTA_URL"       // of the server
	processesOf = "QUOTA_PROCESSES" // how many there are
)

func startWorker(ctx context.Context, url string, processes int) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := &worker{cmd: exec.CommandContext(ctx, self)}
	o.cmd.Env = append(os.Environ(), urlOf+"="+url, fmt.Sprintf("%s=%d", processesOf, processes))
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
			var rate float64
			if _, err := fmt.Sscan(lines.Text(), &rate); err == nil {
				o.mu.Lock()
				o.rate = rate
				o.mu.Unlock()
			}
		}
	}()
	return o, nil
}

func (o *worker) latest() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rate
}

// stop ends a worker: by the end of its input, which it would see if this process died too.
func (o *worker) stop() {
	_ = o.stdin.Close()
	_ = o.cmd.Wait()
}

// work is what a worker does until its input ends: calls at random times, of which it does not
// know how many others make.
func work(url string, processes int, in io.Reader, out io.Writer) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, in); cancel() }()
	var pace pace.Pace
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	client := &http.Client{Timeout: patience, Transport: &retryhttp.Transport{
		Base:   transport,
		Policy: retry.Policy{Name: "complete", MaxAttempts: 10, Guards: []retry.Guard{&pace}},
	}}
	go func() {
		for clock := time.NewTicker(time.Second); ctx.Err() == nil; <-clock.C {
			fmt.Fprintln(out, rateOf(&pace))
		}
	}()
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

func rateOf(p *pace.Pace) float64 {
	if rate := p.Rate(); !math.IsInf(rate, 1) {
		return rate
	}
	return 0
}

// asked reports whether this process is a worker, and works if it is.
func asked() bool {
	url := os.Getenv(urlOf)
	if url == "" {
		return false
	}
	var processes int
	_, _ = fmt.Sscan(os.Getenv(processesOf), &processes)
	work(url, cmp.Or(processes, 1), os.Stdin, os.Stdout)
	return true
}
