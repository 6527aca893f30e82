package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/goretry/retry/pace"
	"github.com/redis/go-redis/v9"
)

// job is what a worker is to do.
type job struct {
	URL    string   // of the server
	Client string   // the name of one of clients
	Redis  []string // addresses, of Sentinels if there is a Master; empty: none
	Master string   // the name that the Sentinels know it by
	Rate   float64  // calls in a second
	Share  float64  // of the quota, in a second
	More   int      // calls that the process has from the start
}

// jobOf is the variable of the environment that has the program be a worker.
const jobOf = "QUOTA_JOB"

// employed reports whether this process is a worker, and works if it is.
func employed() bool {
	text := os.Getenv(jobOf)
	if text == "" {
		return false
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		panic(err)
	}
	j.work(os.Stdin, os.Stdout)
	return true
}

// work makes calls at random times until the input ends. It does not know how many others there
// are. It writes a line for each call that has ended, and four times a second one of its pace.
func (j job) work(in io.Reader, out io.Writer) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, in); cancel() }()
	var store redis.UniversalClient
	if len(j.Redis) > 0 {
		redis.SetLogger(silent{})
		store = redis.NewUniversalClient(&redis.UniversalOptions{Addrs: j.Redis, MasterName: j.Master})
		defer store.Close()
	}
	var model pace.Pace
	call := connect(j.Client)(ctx, j, &model, store)
	go func() {
		for clock := time.NewTicker(time.Second / 4); ctx.Err() == nil; <-clock.C {
			fmt.Fprintln(out, "pace", rateOf(&model), stateOf(&model))
		}
	}()
	timed := func() error {
		begin := time.Now()
		err := call()
		fmt.Fprintln(out, "call", err == nil, max(time.Since(begin)-answer, 0).Seconds())
		return err
	}
	for range j.More {
		go func() {
			for ctx.Err() == nil && timed() != nil {
			}
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.ExpFloat64() / j.Rate * 1e9)):
			go timed()
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
	}
	return "apart"
}
