package batches_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
)

var errUnprocessed = errors.New("not written yet")

// sameKey finds the request that writes the same item, by its key "id".
func sameKey(left types.WriteRequest) func(types.WriteRequest) bool {
	return func(r types.WriteRequest) bool {
		return r.PutRequest != nil && left.PutRequest != nil &&
			reflect.DeepEqual(r.PutRequest.Item["id"], left.PutRequest.Item["id"])
	}
}

func writeItems(ctx context.Context, client *dynamodb.Client, table string, requests []types.WriteRequest) error {
	policy := retry.Policy{Name: "write-users", MaxElapsed: time.Minute}

	err := retrybatch.Run(ctx, policy, requests, func(ctx context.Context, open []types.WriteRequest) error {
		out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{table: open},
		})
		if err != nil {
			return err
		}
		failed := map[int]error{}
		for _, left := range out.UnprocessedItems[table] {
			failed[slices.IndexFunc(open, sameKey(left))] = errUnprocessed
		}
		return retrybatch.Partial(failed)
	})
	return err
}
