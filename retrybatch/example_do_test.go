package retrybatch_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
)

// A stream that answers by position: a shard and a number, or an error code.
type placed struct{ Sequence, Code string }

func ExampleDo() {
	full := true
	put := func(records []string) []placed {
		answers := make([]placed, len(records))
		for i, record := range records {
			if record == "b" && full {
				answers[i].Code = "ProvisionedThroughputExceededException"
			} else {
				answers[i].Sequence = "shard-1/" + record
			}
		}
		full = false
		return answers
	}

	policy := retry.Policy{Name: "put-records", Backoff: retry.Constant(time.Millisecond)}
	values, err := retrybatch.Do(context.Background(), policy, []string{"a", "b", "c"}, func(ctx context.Context, open []string) ([]placed, error) {
		answers := put(open)
		failed := map[int]error{}
		for i, a := range answers {
			if a.Code != "" {
				failed[i] = retry.After(errors.New(a.Code), time.Millisecond)
			}
		}
		return answers, retrybatch.Partial(failed)
	})
	fmt.Println(values, err)
	// Output: [{shard-1/a } {shard-1/b } {shard-1/c }] <nil>
}
