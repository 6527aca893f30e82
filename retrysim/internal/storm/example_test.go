package storm_test

import (
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrysim/internal/storm"
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
		{Name: "with a budget", MaxAttempts: 4, Budget: &budget.Token{}},
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
	// no retries: 1.00 requests per call, back after 2.8s
	// four attempts: 3.50 requests per call, never back
	// with a budget: 1.00 requests per call, back after 3.4s
}

// Three layers of four attempts are 64 requests to a server that is down, unless each
// layer passes on that its caller must not ask again. The price is that fewer calls
// succeed when the server fails at random.
func ExampleLayers() {
	x := storm.Layers{Policy: retry.Policy{MaxAttempts: 4}, Depth: 3, Fails: 1}
	for _, x.Relayed = range []bool{false, true} {
		requests, _ := x.Run()
		fmt.Println(requests)
	}
	x.Fails, x.Calls = .5, 10_000
	for _, x.Relayed = range []bool{false, true} {
		_, success := x.Run()
		fmt.Printf("%.2f\n", success)
	}
	// Output:
	// 64
	// 4
	// 1.00
	// 0.94
}
