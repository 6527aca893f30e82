package batches_test

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
)

func sendMessages(ctx context.Context, client *sqs.Client, policy retry.Policy, queue string, entries []types.SendMessageBatchRequestEntry) error {
	err := retrybatch.Run(ctx, policy, entries, func(ctx context.Context, open []types.SendMessageBatchRequestEntry) error {
		out, err := client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &queue, Entries: open})
		if err != nil {
			return err
		}
		failed := map[int]error{}
		for _, f := range out.Failed {
			i := slices.IndexFunc(open, func(e types.SendMessageBatchRequestEntry) bool { return *e.Id == *f.Id })
			failed[i] = &smithy.GenericAPIError{Code: *f.Code, Message: aws.ToString(f.Message)}
			if f.SenderFault {
				failed[i] = retry.Stop(failed[i])
			}
		}
		return retrybatch.Partial(failed)
	})
	return err
}
