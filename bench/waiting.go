package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	avastretry "github.com/avast/retry-go/v5"
	"github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	sethretry "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/goretry/retry"
)

// Waiting is what 100 000 calls take that all wait for their first retry.
type Waiting struct {
	Name        string
	Stack, Heap float64 // bytes in use for each call
	Cancel      float64 // nanoseconds from the cancel to the end of the last one, for each call
}

// Bytes returns all of the memory.
func (w Waiting) Bytes() float64 { return w.Stack + w.Heap }

const waiting = 100_000

// waitingFor is set in a process that measures one library: a process of its own,
// because the runtime learns from the stacks it has seen and keeps the goroutines
// it has made.
const waitingFor = "BENCH_WAITING_FOR"

// MeasureWaiting returns the quickest, by the time to cancel, of so many rounds in
// which the libraries take turns. The program that calls it must call
// [WaitIfAsked] first.
func MeasureWaiting(ctx context.Context, rounds int) ([]Waiting, error) {
	samples := make([][]Waiting, len(Peers))
	for range rounds {
		for i, p := range Peers {
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), waitingFor+"="+p.Name)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			var w Waiting
			if err := json.Unmarshal(out, &w); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			samples[i] = append(samples[i], w)
		}
	}
	var all []Waiting
	for _, same := range samples {
		all = append(all, slices.MinFunc(same, func(a, b Waiting) int { return cmp.Compare(a.Cancel, b.Cancel) }))
	}
	return all, nil
}

// WaitIfAsked does nothing, except in the processes that MeasureWaiting starts.
func WaitIfAsked() {
	name := os.Getenv(waitingFor)
	for _, p := range Peers {
		if p.Name == name {
			_ = json.NewEncoder(os.Stdout).Encode(callsThatWait(p))
			os.Exit(0)
		}
	}
}

func callsThatWait(p Peer) Waiting {
	ctx, cancel := context.WithCancel(context.Background())
	call := patient(ctx)[p.Name]
	var all sync.WaitGroup
	all.Add(waiting)
	before := inUse()
	for range waiting {
		go func() { // with a small frame: it is a part of what is measured
			call()
			all.Done()
		}()
	}
	now, last := inUse(), before
	for now != last { // until all of them sleep
		now, last = inUse(), now
	}
	start := time.Now()
	cancel()
	all.Wait()
	took := time.Since(start)
	return Waiting{
		Name:   p.Name,
		Stack:  float64(now.stack-before.stack) / waiting,
		Heap:   float64(now.heap-before.heap) / waiting,
		Cancel: float64(took) / waiting,
	}
}

// patient returns a call of each library that waits for an hour, with what can be
// made once in variables. Nobody uses the value: a caller that hands it on has a
// larger frame, and the frames decide whether a call still fits the 2 KiB of stack
// that a goroutine begins with.
func patient(ctx context.Context) map[string]func() {
	spec := Spec{Attempts: 4, Wait: time.Hour, Max: time.Hour}
	p := policy(spec)
	tries := cenkaltiOptions(spec)
	options, reused := avastOptions(spec), avastWithin(ctx, spec)
	executor := failsafe.With[Row](failsafePolicy(spec))
	retrier, strategy := eapacheRetrier(spec), retryV1Strategy(spec)
	plain := func() (Row, error) { return fail(ctx) }
	return map[string]func(){
		hand.Name:     func() { _, _ = byHand(ctx, spec.Attempts, spec.Wait, spec.Max, handSleep, nil, fail) },
		promises.Name: func() { _, _ = promised(ctx, p, spec, handSleep, fail) },
		ours.Name:     func() { _, _ = retry.Do(ctx, p, fail) },
		cenkalti.Name: func() {
			_, _ = backoff.Retry(ctx, plain, append(tries, backoff.WithBackOff(cenkaltiWaits(spec)))...)
		},
		avast.Name:       func() { _, _ = avastretry.NewWithData[Row](append(options, avastretry.Context(ctx))...).Do(plain) },
		avastReused.Name: func() { _, _ = reused(ctx, fail) },
		failsafeGo.Name:  func() { _, _ = executor.WithContext(ctx).Get(plain) },
		sethvargo.Name:   func() { _, _ = sethretry.DoValue(ctx, sethvargoWaits(spec), retryable(fail)) },
		eapache.Name: func() {
			_ = retrier.RunCtx(ctx, func(ctx context.Context) error {
				_, err := fail(ctx)
				return err
			})
		},
		retryV1.Name: func() { _, _ = retryV1Loop(ctx, strategy, nil, fail) },
		k8s.Name: func() {
			_ = wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: spec.Wait, Factor: 2, Steps: spec.Attempts, Cap: spec.Max},
				condition(new(Row), fail))
		},
	}
}

type memory struct{ stack, heap uint64 }

func inUse() memory {
	var m runtime.MemStats
	for range 100 {
		runtime.Gosched()
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	return memory{m.StackInuse, m.HeapAlloc}
}
