package batches_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/elastic/go-elasticsearch/v8"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
)

var policy = retry.Policy{Name: "batch", Backoff: retry.Constant(time.Millisecond)}

// service answers calls like the AWS services and Elasticsearch do. It fails an item
// whose name begins with busy, the first time it sees it, and each whose name begins
// with bad. Its calls has the names of the items of each call.
type service struct {
	calls [][]string
	seen  map[string]bool
	taken []string
	down  bool // the next call fails as a whole
}

// take returns "", "busy" or "bad" for each item of a call.
func (s *service) take(names []string) []string {
	s.calls = append(s.calls, names)
	verdicts := make([]string, len(names))
	for i, name := range names {
		switch {
		case strings.HasPrefix(name, "bad"):
			verdicts[i] = "bad"
		case strings.HasPrefix(name, "busy") && !s.seen[name]:
			s.seen[name] = true
			verdicts[i] = "busy"
		default:
			s.taken = append(s.taken, name)
		}
	}
	return verdicts
}

func serve(t *testing.T, handle func(s *service, r *http.Request) any) (*service, string) {
	s := &service{seen: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		if s.down {
			s.down = false
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer := handle(s, r)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if r.URL.Path != "/" && !strings.Contains(r.Header.Get("X-Amz-Target"), ".") {
			w.Header().Set("Content-Type", "application/json")
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return s, server.URL
}

func read[T any](t *testing.T, r io.Reader) (v T) {
	if err := json.NewDecoder(r).Decode(&v); err != nil {
		t.Error(err)
	}
	return v
}

type object = map[string]any

var credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
})

// checkCalls compares the items of each call.
func (s *service) checkCalls(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, names := range s.calls {
		got = append(got, strings.Join(names, " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// checkFailed compares the items that failed for good.
func checkFailed(t *testing.T, err error, want ...string) {
	t.Helper()
	var got []string
	if e, ok := errors.AsType[*retrybatch.Error](err); ok {
		for _, f := range e.Failed {
			got = append(got, fmt.Sprint(f.Index, " ", f.Err.Reason, " ", f.Err.Attempts))
		}
	} else if err != nil {
		t.Fatalf("err = %v", err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("failed %q, want %q: %v", got, want, err)
	}
}

func TestSQS(t *testing.T) {
	s, url := serve(t, func(s *service, r *http.Request) any {
		in := read[struct {
			Entries []struct{ Id, MessageBody string }
		}](t, r.Body)
		var names []string
		for _, e := range in.Entries {
			names = append(names, e.MessageBody)
		}
		successful, failed := []object{}, []object{}
		for i, verdict := range s.take(names) {
			id := in.Entries[i].Id
			switch verdict {
			case "bad":
				failed = append(failed, object{"Id": id, "Code": "InvalidMessageContents", "SenderFault": true})
			case "busy":
				failed = append(failed, object{"Id": id, "Code": "ServiceUnavailable", "Message": "again", "SenderFault": false})
			default:
				// The SDK compares a checksum unless that is turned off.
				successful = append(successful, object{"Id": id, "MessageId": "m-" + id})
			}
		}
		slices.Reverse(failed) // in any order
		return object{"Successful": successful, "Failed": failed}
	})
	client := sqs.New(sqs.Options{
		BaseEndpoint: &url, Region: "eu-central-1", Credentials: credentials,
		RetryMaxAttempts: 1, DisableMessageChecksumValidation: true,
	})
	var entries []sqstypes.SendMessageBatchRequestEntry
	for i, body := range []string{"a", "busy-b", "bad-c", "busy-d", "e"} {
		entries = append(entries, sqstypes.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint("id", i)), MessageBody: aws.String(body)})
	}
	s.down = true
	err := sendMessages(t.Context(), client, policy, url+"/queue", entries)
	s.checkCalls(t, "a busy-b bad-c busy-d e", "busy-b busy-d")
	checkFailed(t, err, "2 permanent 2")
}

// An id that nobody sent is no answer to trust: nothing is called done.
func TestSQSAnswersAnUnknownID(t *testing.T) {
	_, url := serve(t, func(*service, *http.Request) any {
		return object{"Successful": []object{}, "Failed": []object{{"Id": "other", "Code": "X", "SenderFault": false}}}
	})
	client := sqs.New(sqs.Options{BaseEndpoint: &url, Region: "eu-central-1", Credentials: credentials, RetryMaxAttempts: 1})
	err := sendMessages(t.Context(), client, policy, url+"/queue", []sqstypes.SendMessageBatchRequestEntry{
		{Id: aws.String("a"), MessageBody: aws.String("x")}, {Id: aws.String("b"), MessageBody: aws.String("y")},
	})
	checkFailed(t, err, "0 permanent 1", "1 permanent 1")
}

func TestKinesis(t *testing.T) {
	s, url := serve(t, func(s *service, r *http.Request) any {
		in := read[struct {
			Records []struct{ PartitionKey string }
		}](t, r.Body)
		var names []string
		for _, e := range in.Records {
			names = append(names, e.PartitionKey)
		}
		records := []object{}
		for i, verdict := range s.take(names) {
			switch verdict {
			case "bad":
				records = append(records, object{"ErrorCode": "InternalFailure", "ErrorMessage": "Internal service failure."})
			case "busy":
				records = append(records, object{"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "Rate exceeded"})
			default:
				records = append(records, object{"ShardId": "shard-1", "SequenceNumber": names[i]})
			}
		}
		return object{"FailedRecordCount": 0, "Records": records}
	})
	client := kinesis.New(kinesis.Options{BaseEndpoint: &url, Region: "eu-central-1", Credentials: credentials, RetryMaxAttempts: 1})
	var entries []kinesistypes.PutRecordsRequestEntry
	for _, key := range []string{"a", "busy-b", "c", "bad-d"} {
		entries = append(entries, kinesistypes.PutRecordsRequestEntry{PartitionKey: aws.String(key), Data: []byte(key)})
	}
	records, err := putRecords(t.Context(), client, policy, "stream", entries)
	s.checkCalls(t, "a busy-b c bad-d", "busy-b bad-d", "bad-d")
	checkFailed(t, err, "3 max_attempts 3")
	for i, want := range []string{"a", "busy-b", "c", ""} {
		if got := aws.ToString(records[i].SequenceNumber); got != want {
			t.Errorf("record %d: sequence number %q, want %q", i, got, want)
		}
	}
}

func TestChunksAndDeadLetters(t *testing.T) {
	entries := make([]kinesistypes.PutRecordsRequestEntry, 1201)
	var sizes []int
	err := putAll(t.Context(), policy, entries, func(_ context.Context, open []kinesistypes.PutRecordsRequestEntry) ([]kinesistypes.PutRecordsResultEntry, error) {
		sizes = append(sizes, len(open))
		return make([]kinesistypes.PutRecordsResultEntry, len(open)), retrybatch.Partial(map[int]error{len(open) - 1: retry.Stop(io.EOF)})
	})
	if want := []int{500, 500, 201}; !slices.Equal(sizes, want) {
		t.Errorf("calls of %v items, want %v", sizes, want)
	}
	letters := 0
	deadLetters(entries, err, func(_ kinesistypes.PutRecordsRequestEntry, err error) {
		if letters++; !errors.Is(err, io.EOF) {
			t.Errorf("dead letter: %v", err)
		}
	})
	if letters != 1 { // of the first chunk that failed
		t.Errorf("%d dead letters, want 1", letters)
	}
}

func TestDynamoDB(t *testing.T) {
	s, url := serve(t, func(s *service, r *http.Request) any {
		type write struct {
			PutRequest struct {
				Item struct{ Id struct{ S string } }
			}
		}
		in := read[struct{ RequestItems map[string][]write }](t, r.Body)
		var names []string
		for _, w := range in.RequestItems["users"] {
			names = append(names, w.PutRequest.Item.Id.S)
		}
		left := []object{}
		for i, verdict := range s.take(names) {
			if verdict != "" {
				left = append(left, object{"PutRequest": object{"Item": object{"id": object{"S": names[i]}}}})
			}
		}
		slices.Reverse(left)
		if len(left) == 0 {
			return object{"UnprocessedItems": object{}}
		}
		return object{"UnprocessedItems": object{"users": left}}
	})
	client := dynamodb.New(dynamodb.Options{BaseEndpoint: &url, Region: "eu-central-1", Credentials: credentials, RetryMaxAttempts: 1})
	var requests []dynamotypes.WriteRequest
	for _, id := range []string{"a", "busy-b", "c", "busy-d"} {
		requests = append(requests, dynamotypes.WriteRequest{PutRequest: &dynamotypes.PutRequest{
			Item: map[string]dynamotypes.AttributeValue{"id": &dynamotypes.AttributeValueMemberS{Value: id}},
		}})
	}
	if err := writeItems(t.Context(), client, "users", requests); err != nil {
		t.Error(err)
	}
	s.checkCalls(t, "a busy-b c busy-d", "busy-b busy-d")
}

func TestElasticsearch(t *testing.T) {
	s, url := serve(t, func(s *service, r *http.Request) any {
		var names []string
		lines := bufio.NewScanner(r.Body)
		for n := 0; lines.Scan(); n++ {
			if n%2 == 1 {
				names = append(names, read[struct{ Name string }](t, strings.NewReader(lines.Text())).Name)
			}
		}
		items := []object{}
		for _, verdict := range s.take(names) {
			status := map[string]int{"": 201, "busy": 429, "bad": 400}[verdict]
			items = append(items, object{"index": object{"status": status, "error": object{"reason": verdict}}})
		}
		return object{"errors": true, "items": items}
	})
	client, err := elasticsearch.NewClient(elasticsearch.Config{Addresses: []string{url}, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	var documents []any
	for _, name := range []string{"bad-a", "busy-b", "c", "busy-d"} {
		documents = append(documents, object{"name": name})
	}
	s.down = true
	err = index(t.Context(), client, policy, "people", documents)
	s.checkCalls(t, "bad-a busy-b c busy-d", "busy-b busy-d")
	checkFailed(t, err, "0 permanent 2")
}
