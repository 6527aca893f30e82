package batches_test

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
)

func putRecords(ctx context.Context, client *kinesis.Client, policy retry.Policy, stream string, entries []types.PutRecordsRequestEntry) ([]types.PutRecordsResultEntry, error) {
	records, err := retrybatch.Do(ctx, policy, entries, func(ctx context.Context, open []types.PutRecordsRequestEntry) ([]types.PutRecordsResultEntry, error) {
		out, err := client.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: &stream, Records: open})
		if err != nil {
			return nil, err
		}
		failed := map[int]error{}
		for i, r := range out.Records {
			if r.ErrorCode != nil {
				failed[i] = &smithy.GenericAPIError{Code: *r.ErrorCode, Message: aws.ToString(r.ErrorMessage)}
			}
		}
		return out.Records, retrybatch.Partial(failed)
	})
	return records, err
}

// putAll puts any number of records, 500 in each call.
func putAll(ctx context.Context, policy retry.Policy, entries []types.PutRecordsRequestEntry, put func(context.Context, []types.PutRecordsRequestEntry) ([]types.PutRecordsResultEntry, error)) error {
	var all []error
	for chunk := range slices.Chunk(entries, 500) {
		if _, err := retrybatch.Do(ctx, policy, chunk, put); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func deadLetters(entries []types.PutRecordsRequestEntry, err error, deadLetter func(types.PutRecordsRequestEntry, error)) {
	if e, ok := errors.AsType[*retrybatch.Error](err); ok {
		for _, f := range e.Failed {
			deadLetter(entries[f.Index], f.Err) // f.Err is a *retry.Error: Reason, Attempts, Last()
		}
	}
}
