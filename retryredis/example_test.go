package retryredis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/fleetpace"
	"github.com/goretry/retry/retryredis"
	"github.com/redis/go-redis/v9"
)

// Processes that call the same model with the same API key share its quota: each runs this.
func ExampleFleet() {
	ctx, cancel := context.WithCancel(context.Background()) // as long as the process runs
	defer cancel()
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}})
	defer client.Close()

	var model retry.Pace
	go model.Share(ctx, &retryredis.Fleet{Client: client, Key: "provider/model/key"})
	policy := retry.Policy{Name: "complete", Guards: []retry.Guard{&model}}
	_ = policy // of each call of the model
}

// A command that prints what a fleet does: a report of nothing changes nothing.
func ExampleFleet_Exchange() {
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	fleet := &retryredis.Fleet{Client: client, Key: "provider/model/key"}
	a, err := fleet.Exchange(ctx, fleetpace.Report{})
	switch {
	case err != nil:
		fmt.Println(err)
	case a.Mode == fleetpace.Paced:
		fmt.Printf("%.1f attempts per second, and %.0f wait\n", a.Rate, max(a.Tail-a.Head, 0))
	case a.Mode == fleetpace.Held:
		fmt.Printf("nothing starts for %.0f s\n", a.Hold)
	default:
		fmt.Println("nobody waits")
	}
}
