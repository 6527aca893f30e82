package queues_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"cloud.google.com/go/auth"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/oauth2"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
)

func after(err error) retryqueue.Action {
	return retryqueue.Delivery{Number: 1}.After(retry.Policy{}, err).Action
}

// nested is the error of any of AWS's clients.
func nested(service string, status int, code string) error {
	return &smithy.OperationError{ServiceID: service, OperationName: "Call", Err: &awshttp.ResponseError{
		RequestID: "1",
		ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
			Err:      &smithy.GenericAPIError{Code: code, Message: "x", Fault: smithy.FaultClient},
		},
	}}
}

// All of these have status 400, which alone would say that the message is to blame.
var codes = map[string]retryqueue.Action{
	"AccessDenied":                            retryqueue.Retry,
	"AccessDeniedException":                   retryqueue.Retry,
	"ExpiredTokenException":                   retryqueue.Retry,
	"UnrecognizedClientException":             retryqueue.Retry,
	"InvalidSignatureException":               retryqueue.Retry,
	"InvalidClientTokenId":                    retryqueue.Retry,
	"IncompleteSignature":                     retryqueue.Retry,
	"MissingAuthenticationToken":              retryqueue.Retry,
	"NotAuthorized":                           retryqueue.Retry,
	"OptInRequired":                           retryqueue.Retry,
	"RequestExpired":                          retryqueue.Retry,
	"ResourceNotFoundException":               retryqueue.Retry,
	"QueueDoesNotExist":                       retryqueue.Retry,
	"AWS.SimpleQueueService.NonExistentQueue": retryqueue.Retry,
	"KMSInvalidStateException":                retryqueue.Retry,
	"KMSDisabledException":                    retryqueue.Retry,
	"KMSAccessDeniedException":                retryqueue.Retry,
	"KMSNotFoundException":                    retryqueue.Retry,
	"KMSOptInRequired":                        retryqueue.Retry,
	"KmsDisabled":                             retryqueue.Retry,
	"KmsInvalidState":                         retryqueue.Retry,
	"KmsAccessDenied":                         retryqueue.Retry,
	"KmsNotFound":                             retryqueue.Retry,
	"KmsOptInRequired":                        retryqueue.Retry,
	"ThrottlingException":                     retryqueue.Retry,
	"InvalidIdentityToken":                    retryqueue.Retry,

	"ValidationException":     retryqueue.Dead,
	"SerializationException":  retryqueue.Dead,
	"InvalidMessageContents":  retryqueue.Dead,
	"MalformedPolicyDocument": retryqueue.Dead,
	"SomethingElse":           retryqueue.Dead,
}

func TestCodesOfAWS(t *testing.T) {
	for code, want := range codes {
		for _, service := range []string{"SQS", "Kinesis", "DynamoDB"} {
			err := nested(service, 400, code)
			if got := after(err); got != want {
				t.Errorf("%s: %v, want %v: %v", service, got, want, err)
			}
			if got := after(fmt.Errorf("send: %w", err)); got != want {
				t.Errorf("%s, wrapped: %v, want %v: %v", service, got, want, err)
			}
		}
	}
}

// The same codes from a server, by clients that speak the three protocols of AWS.
func TestClientsOfAWS(t *testing.T) {
	var code string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.Header().Set("X-Amzn-Errortype", code)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"__type": "com.amazonaws#%s", "message": "x"}`, code)
	}))
	defer server.Close()
	keys := credentials.NewStaticCredentialsProvider("x", "x", "")
	queue := sqs.New(sqs.Options{BaseEndpoint: &server.URL, Region: "eu-central-1", Credentials: keys, Retryer: aws.NopRetryer{}})
	stream := kinesis.New(kinesis.Options{BaseEndpoint: &server.URL, Region: "eu-central-1", Credentials: keys, Retryer: aws.NopRetryer{}})
	items := dynamodb.New(dynamodb.Options{BaseEndpoint: &server.URL, Region: "eu-central-1", Credentials: keys, Retryer: aws.NopRetryer{}})
	for name, call := range map[string]func(context.Context) error{
		"sqs": func(ctx context.Context) error {
			_, err := queue.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &server.URL, MessageBody: aws.String("x")})
			return err
		},
		"kinesis": func(ctx context.Context) error {
			_, err := stream.PutRecord(ctx, &kinesis.PutRecordInput{StreamName: aws.String("x"), PartitionKey: aws.String("x"), Data: []byte("x")})
			return err
		},
		"dynamodb": func(ctx context.Context) error {
			_, err := items.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String("x"), Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "x"}}})
			return err
		},
	} {
		for c, want := range codes {
			code = c
			err := call(t.Context())
			if got := after(err); got != want {
				t.Errorf("%s, %s: %v, want %v: %v", name, code, got, want, err)
			}
		}
	}
}

// Getting a token is never about the message.
func TestTokens(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 409, 422, 429, 500, 503} {
		response := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: &http.Request{URL: &url.URL{}}}
		for _, err := range []error{
			&auth.Error{Response: response},
			&url.Error{Op: "Post", URL: "https://x", Err: &auth.Error{Response: response}},
			&azidentity.AuthenticationFailedError{RawResponse: response},
			&oauth2.RetrieveError{Response: response},
			&url.Error{Op: "Post", URL: "https://x", Err: &oauth2.RetrieveError{Response: response, ErrorCode: "invalid_grant"}},
		} {
			if got := after(err); got != retryqueue.Retry {
				t.Errorf("%d, %T: %v, want a retry", status, err, got)
			}
			permanent := retry.DefaultClassifier(err) == retry.Permanent
			_, byCode := errors.AsType[*oauth2.RetrieveError](err)
			if want := status < 429; permanent != want && !byCode {
				t.Errorf("%d, %T: permanent: %t, want %t", status, err, permanent, want)
			}
			if got := retry.DefaultClassifier(err); status == 503 && !byCode && got != retry.Transient {
				t.Errorf("%d, %T: %v, want transient", status, err, got)
			}
		}
	}
}

// DynamoDB says for each item of a transaction why it was canceled.
func TestCanceledTransactions(t *testing.T) {
	for _, tt := range []struct {
		reasons []string
		want    retry.Class
	}{
		{[]string{"None", "TransactionConflict"}, retry.Transient},
		{[]string{"TransactionConflict"}, retry.Transient},
		{[]string{"None", "ThrottlingError"}, retry.Throttled},
		{[]string{"ProvisionedThroughputExceeded", "TransactionConflict"}, retry.Throttled},
		{[]string{"TransactionConflict", "ThrottlingError", "None"}, retry.Throttled},
		{[]string{"ConditionalCheckFailed", "None"}, retry.Permanent},
		{[]string{"ConditionalCheckFailed", "TransactionConflict"}, retry.Permanent},
		{[]string{"ThrottlingError", "ValidationError"}, retry.Permanent},
		{[]string{"ItemCollectionSizeLimitExceeded"}, retry.Permanent},
		{[]string{"None"}, retry.Transient},
		{nil, retry.Permanent},
	} {
		e := &types.TransactionCanceledException{}
		for _, reason := range tt.reasons {
			e.CancellationReasons = append(e.CancellationReasons, types.CancellationReason{Code: aws.String(reason)})
		}
		err := &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "TransactWriteItems", Err: &awshttp.ResponseError{
			ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: 400}}, Err: e}}}
		for _, err := range []error{err, e, fmt.Errorf("write: %w", err)} {
			if got := retry.DefaultClassifier(err); got != tt.want {
				t.Errorf("%T, %v: %v, want %v", err, tt.reasons, got, tt.want)
			}
		}
	}
}
