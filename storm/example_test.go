package storm_test

import (
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/storm"
)

// A service at 80 % of its capacity stops for two seconds, and clients wait one.
func ExampleService() {
	from, to := 10*time.Second, 12*time.Second
	service := storm.Service{
		Rate:     200,
		Capacity: 250,
		Timeout:  time.Second,
		Outages:  []storm.Outage{{From: from, To: to}},
		Seed:     1,
	}
	for _, p := range []retry.Policy{
		{Name: "no retries", MaxAttempts: 1},
		{Name: "four attempts", MaxAttempts: 4},
		{Name: "with a budget", MaxAttempts: 4, Budget: &retry.TokenBudget{}},
	} {
		r := service.Run(p)
		fmt.Printf("%s: %.2f requests per call, ", p.Name, r.Load())
		if after, ok := r.Recovery(from, to); ok {
			fmt.Println("back after", after)
		} else {
			fmt.Println("never back")
		}
	}
	// Output:
	// no retries: 1.00 requests per call, back after 3.3s
	// four attempts: 3.50 requests per call, never back
	// with a budget: 1.00 requests per call, back after 3.8s
}

func ExampleParsePolicy() {
	p, err := storm.ParsePolicy("attempts=4 backoff=exponential(100ms,10s) jitter=equal budget=ratio(0.1)")
	fmt.Println(p.MaxAttempts, err)
	_, err = storm.ParsePolicy("attempts=4 backoff=fast")
	fmt.Println(err)
	// Output:
	// 4 <nil>
	// column 20: unknown backoff "fast": want one of exponential, linear, fibonacci, decorrelated, constant, schedule
}

func ExampleFormatPolicy() {
	fmt.Println(storm.FormatPolicy(retry.Policy{
		Name:    "fetch-user",
		Backoff: retry.Linear{Base: time.Second, Jitter: retry.PlusMinus(.1)},
		Budget:  &retry.TokenBudget{},
	}))
	// Output: name=fetch-user backoff=linear(1s) jitter=plusminus(0.1) budget=token
}

func ExampleLayers() {
	for _, row := range (storm.Layers{Attempts: []int{4}, Depths: []int{3}}).Run() {
		fmt.Printf("guarded %v: %d calls\n", row.Guarded, row.Calls)
	}
	// Output:
	// guarded false: 64 calls
	// guarded true: 4 calls
}
