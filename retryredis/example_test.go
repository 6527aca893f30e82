package retryredis_test

import (
	"context"
	"time"

	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryredis"
	"github.com/redis/go-redis/v9"
)

// model is the pace of one quota: that of this key for this model.
var model = pace.Pace{Quota: 500, Per: time.Minute, Burst: 20}

func ExampleStore() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop() // after the last call
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	go model.Share(ctx, &retryredis.Store{Client: client, Key: "provider/model/key"})
}
