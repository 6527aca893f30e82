package clients_test

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/goretry/retry"
)

var orders = retry.Policy{Name: "store-order", MaxAttempts: 4, AttemptTimeout: 2 * time.Second}

func newDB(config aws.Config) *dynamodb.Client {
	config.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // the SDK's own retries are off
	return dynamodb.NewFromConfig(config)
}

func store(ctx context.Context, db *dynamodb.Client, items []dynamodbtypes.TransactWriteItem) error {
	token := rand.Text() // made once, so that all attempts are one write to the server
	return retry.Run(ctx, orders, func(ctx context.Context) error {
		_, err := db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items, ClientRequestToken: &token})
		return err
	})
}

// down503 answers 503, and keeps the requests' bodies.
type down503 struct{ bodies *[]string }

func (u down503) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	*u.bodies = append(*u.bodies, string(body))
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// The code of docs/clients.md sends four requests that are equal.
func TestAllAttemptsAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		db := newDB(aws.Config{Region: "x", BaseEndpoint: aws.String("http://192.0.2.1"), HTTPClient: &http.Client{Transport: down503{&bodies}},
			Credentials: awscredentials.NewStaticCredentialsProvider("x", "x", "")})
		err := store(t.Context(), db, []dynamodbtypes.TransactWriteItem{{Put: &dynamodbtypes.Put{
			TableName: aws.String("x"), Item: map[string]dynamodbtypes.AttributeValue{"id": &dynamodbtypes.AttributeValueMemberS{Value: "x"}}}}})
		if err == nil || len(bodies) != 4 || len(slices.Compact(slices.Clone(bodies))) != 1 || !strings.Contains(bodies[0], "ClientRequestToken") {
			t.Errorf("%v, and the requests are %q", err, bodies)
		}
	})
}
