package batches_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/elastic/go-elasticsearch/v8"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
)

// bulkAnswer is what _bulk says, as far as it matters.
type bulkAnswer struct {
	Items []struct {
		Index struct {
			Status int
			Error  struct{ Reason string }
		}
	}
}

// itemError is an item that was not indexed. DefaultClassifier calls StatusCode.
type itemError struct {
	status int
	reason string
}

func (e itemError) Error() string   { return fmt.Sprintf("status %d: %s", e.status, e.reason) }
func (e itemError) StatusCode() int { return e.status }

func index(ctx context.Context, client *elasticsearch.Client, policy retry.Policy, name string, documents []any) error {
	return retrybatch.Run(ctx, policy, documents, func(ctx context.Context, open []any) error {
		var body bytes.Buffer
		for _, document := range open {
			body.WriteString("{\"index\":{}}\n")
			if err := json.NewEncoder(&body).Encode(document); err != nil {
				return retry.Stop(err)
			}
		}
		resp, err := client.Bulk(&body, client.Bulk.WithContext(ctx), client.Bulk.WithIndex(name))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.IsError() {
			return itemError{resp.StatusCode, "the whole call"}
		}
		var answer bulkAnswer
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return err
		}
		failed := map[int]error{}
		for i, item := range answer.Items {
			if item.Index.Status >= 300 {
				failed[i] = itemError{item.Index.Status, item.Index.Error.Reason}
			}
		}
		return retrybatch.Partial(failed)
	})
}
