package retrybatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
	"github.com/goretry/retry/retryhttp"
)

// order is what an API takes many of, in one POST. It answers with a status for each.
type order struct{ ID string }

// statusError is an order that was not taken. DefaultClassifier calls StatusCode.
type statusError int

func (e statusError) Error() string   { return http.StatusText(int(e)) }
func (e statusError) StatusCode() int { return int(e) }

func post(ctx context.Context, url string, orders []order) error {
	policy := retry.Policy{Name: "orders", Backoff: retry.Constant(time.Millisecond)}
	once := retry.Policy{MaxAttempts: 1}
	_, err := retrybatch.Do(ctx, policy, orders, func(ctx context.Context, open []order) ([]int, error) {
		body, err := json.Marshal(open)
		if err != nil {
			return nil, retry.Stop(err)
		}
		req, err := http.NewRequest("POST", url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		statuses, err := retryhttp.JSON[[]int](ctx, once, nil, req)
		if err != nil {
			return nil, err
		}
		failed := map[int]error{}
		for i, status := range statuses {
			if status >= 300 {
				failed[i] = statusError(status)
			}
		}
		return statuses, retrybatch.Partial(failed)
	})
	return err
}

// A server that answers 503 may have taken some of the orders. Whether it recognizes those
// that it has, only the caller knows.
func ExampleDo_http() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		body, _ := io.ReadAll(r.Body)
		fmt.Println("call", calls, string(body))
		if calls == 3 {
			fmt.Fprint(w, "[200, 400]")
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()

	orders := []order{{"a"}, {"b"}}
	err := post(context.Background(), server.URL, orders)
	fmt.Println(strings.Contains(err.Error(), "2 permanent: not_idempotent inside"))
	err = post(retryhttp.Idempotent(context.Background(), true), server.URL, orders)
	fmt.Println(err)
	// Output:
	// call 1 [{"ID":"a"},{"ID":"b"}]
	// true
	// call 2 [{"ID":"a"},{"ID":"b"}]
	// call 3 [{"ID":"a"},{"ID":"b"}]
	// orders: 1 of 2 items failed after 2 attempts (1 permanent): item 1: Bad Request
}
