package retrybatch_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
)

// A queue that takes ten messages per call, and answers by their ids.
type queue struct{ calls int }

type rejection struct {
	ID, Code    string
	SenderFault bool
}

func (q *queue) send(ids []string) []rejection {
	q.calls++
	fmt.Println("call", q.calls, ids)
	if q.calls == 1 {
		return []rejection{{ID: "c", Code: "InvalidMessageContents", SenderFault: true}, {ID: "b", Code: "ServiceUnavailable"}}
	}
	return nil
}

func ExampleRun() {
	var q queue
	messages := []string{"a", "b", "c", "d"}
	policy := retry.Policy{Name: "send-orders", Backoff: retry.Constant(time.Millisecond)}
	err := retrybatch.Run(context.Background(), policy, messages, func(ctx context.Context, open []string) error {
		position := map[string]int{}
		for i, id := range open {
			position[id] = i
		}
		failed := map[int]error{}
		for _, r := range q.send(open) {
			i, ok := position[r.ID]
			if !ok {
				i = -1 // an id that nobody sent: no answer to trust
			}
			failed[i] = errors.New(r.Code)
			if r.SenderFault {
				failed[i] = retry.Stop(failed[i])
			}
		}
		return retrybatch.Partial(failed)
	})
	fmt.Println(err)
	// Output:
	// call 1 [a b c d]
	// call 2 [b]
	// send-orders: 1 of 4 items failed after 2 attempts (1 permanent): item 2: InvalidMessageContents
}
