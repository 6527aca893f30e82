package clients_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/bwmarrin/discordgo"
	"github.com/cloudflare/cloudflare-go/v6"
	cloudflareoption "github.com/cloudflare/cloudflare-go/v6/option"
	"github.com/cloudflare/cloudflare-go/v6/zones"
	"github.com/digitalocean/godo"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v9/typedapi/core/index"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	"github.com/linode/linodego"
	"github.com/meilisearch/meilisearch-go"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stripe/stripe-go/v83"
	gitlab "gitlab.com/gitlab-org/api/client-go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporal "go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clienttest/internal/pipes"
)

// A write is a call of a client that changes something, with its own retries off.
type write struct {
	client string
	token  string // where its token goes, as docs/clients.md has it; "no" if it makes none

	// serve has got called for all that a request says, and lets it fail.
	serve func(network *pipes.Pipes, got func(request string)) (stop func())

	// call makes the write. A token that is not "" is set as the page says.
	call func(ctx context.Context, network *pipes.Pipes, token string) error
}

// noTokens are headers that differ from call to call, and by which no server knows a write again.
var noTokens = []string{
	"Amz-Sdk-Invocation-Id", // AWS, for its logs
	"Authorization",         // a signature of the others
	"X-Ms-Client-Request-Id",
	"X-Goog-Api-Client",
	"Connect-Timeout-Ms", // what is left of the context's
}

// web is a write by HTTP.
func web(client, token string, call func(ctx context.Context, base string, hc *http.Client, token string) error) write {
	return write{client, token, func(network *pipes.Pipes, got func(string)) (stop func()) {
		failing := byName(client).handler(answer{status: http.StatusServiceUnavailable}, nil, func() {})
		server, done := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			header := r.Header.Clone()
			for _, name := range noTokens {
				header.Del(name)
			}
			var text strings.Builder
			_ = header.Write(&text)
			if r.Method != http.MethodGet && r.Method != http.MethodHead { // an answer to these comes before the write
				got(r.Method + " " + r.URL.String() + "\n" + text.String() + string(body))
			} else if r.URL.Path == "/v2/" { // a registry that asks for no login
				return
			}
			failing.ServeHTTP(w, r)
		})}, make(chan struct{})
		go func() { defer close(done); _ = server.Serve(network) }()
		return func() { server.Close(); <-done }
	}, func(ctx context.Context, network *pipes.Pipes, token string) error {
		return call(ctx, "http://192.0.2.1", webClient(network), token)
	}}
}

// byName returns the client with that name, or one without a special body.
func byName(name string) *client {
	if i := slices.IndexFunc(clients, func(c client) bool { return c.name == name }); i >= 0 {
		return &clients[i]
	}
	return &client{}
}

// asTested is the call of a client that is a write, and has no room for a token.
func asTested(client string) write {
	return web(client, "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		return byName(client).call(ctx, base, hc, true)
	})
}

// overRPC has the requests of a client of gRPC fail.
func overRPC(network *pipes.Pipes, got func(string)) (stop func()) {
	return serveRPC(network, func(method string, request []byte) error {
		got(method + "\n" + string(request))
		return status.Error(codes.Unavailable, "x")
	})
}

// overRedis has the commands of a client of Redis fail.
func overRedis(network *pipes.Pipes, got func(string)) (stop func()) {
	return serveRedis(network, "LOADING x", func(command []string) { got(strings.Join(command, " ")) })
}

// overMongo has the inserts of MongoDB's driver fail. The first section of one is about the session.
func overMongo(network *pipes.Pipes, got func(string)) (stop func()) {
	return serveMongo(network, func(net.Conn) bool { return false }, func(sections []byte) {
		_, documents, _ := strings.Cut(string(sections), "documents\x00")
		got(documents)
	}, shuttingDown)
}

func insertToken(ctx context.Context, network *pipes.Pipes, token string) error {
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://192.0.2.1:80").SetDialer(contextDialer(network.Dial)).SetRetryWrites(false))
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect(context.WithoutCancel(ctx)) }()
	document := bson.D{{Key: "x", Value: 1}}
	if token != "" {
		document = append(bson.D{{Key: "_id", Value: token}}, document...)
	}
	return last(c.Database("x").Collection("x").InsertOne(ctx, document))
}

// writes are a write of each client that docs/clients.md lists as one that retries on its own.
var writes = []write{
	web("azcore", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		return azcoreCall(ctx, http.MethodPost, base, &policy.ClientOptions{Transport: hc, Retry: policy.RetryOptions{MaxRetries: -1}})
	}),
	web("azblob", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		c, err := azblob.NewClientWithNoCredential(base, &azblob.ClientOptions{ClientOptions: policy.ClientOptions{Transport: hc, Retry: policy.RetryOptions{MaxRetries: -1}}})
		if err != nil {
			return err
		}
		return last(c.UploadBuffer(ctx, "x", "x", []byte("x"), nil))
	}),
	web("openai-go", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		c := openai.NewClient(openaioption.WithBaseURL(base), openaioption.WithHTTPClient(hc), openaioption.WithAPIKey("x"), openaioption.WithMaxRetries(0))
		return last(c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "x", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")}}))
	}),
	web("anthropic-sdk-go", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		c := anthropic.NewClient(anthropicoption.WithBaseURL(base), anthropicoption.WithHTTPClient(hc), anthropicoption.WithAPIKey("x"), anthropicoption.WithMaxRetries(0))
		return last(c.Messages.New(ctx, anthropic.MessageNewParams{Model: "x", MaxTokens: 1, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("x"))}}))
	}),
	web("cloudflare-go", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		c := cloudflare.NewClient(cloudflareoption.WithBaseURL(base), cloudflareoption.WithHTTPClient(hc), cloudflareoption.WithAPIToken("x"), cloudflareoption.WithMaxRetries(0))
		return last(c.Zones.New(ctx, zones.ZoneNewParams{Name: cloudflare.F("x")}))
	}),
	web("stripe-go", "`Params.IdempotencyKey`", func(ctx context.Context, base string, hc *http.Client, token string) error {
		config := &stripe.BackendConfig{URL: &base, HTTPClient: hc, LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull}, MaxNetworkRetries: stripe.Int64(0)}
		params := &stripe.CustomerCreateParams{}
		if token != "" {
			params.IdempotencyKey = &token
		}
		return last(stripe.NewClient("sk_test_x", stripe.WithBackends(stripe.NewBackendsWithConfig(config))).V1Customers.Create(ctx, params))
	}),
	web("gitlab client-go", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		c, err := gitlab.NewClient("x", gitlab.WithBaseURL(base), gitlab.WithHTTPClient(hc), gitlab.WithoutRetries())
		if err != nil {
			return err
		}
		_, _, err = c.Projects.CreateProject(&gitlab.CreateProjectOptions{Name: gitlab.Ptr("x")}, gitlab.WithContext(ctx))
		return err
	}),
	web("godo", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		c := godo.NewClient(hc)
		c.BaseURL, _ = url.Parse(base + "/")
		_, _, err := c.Droplets.Create(ctx, &godo.DropletCreateRequest{Name: "x"})
		return err
	}),
	web("linodego", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		c := linodego.NewClient(hc)
		c.SetBaseURL(base)
		c.SetRetryCount(0)
		return last(c.CreateInstance(ctx, linodego.InstanceCreateOptions{Region: "x", Type: "x"}))
	}),
	web("discordgo", "no", func(ctx context.Context, _ string, hc *http.Client, _ string) error {
		s, err := discordgo.New("Bot x")
		if err != nil {
			return err
		}
		s.Client, s.MaxRestRetries, s.ShouldRetryOnRateLimit = hc, 0, false
		return last(s.ChannelMessageSend("1", "x", discordgo.WithContext(ctx)))
	}),
	asTested("Kubernetes client-go"),
	web("go-elasticsearch", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		u, err := url.Parse(base)
		if err != nil {
			return err
		}
		tp, err := elastictransport.NewClient(elastictransport.WithURLs(u), elastictransport.WithTransport(hc.Transport), elastictransport.WithDisableRetry())
		if err != nil {
			return err
		}
		return last(index.NewIndexFunc(tp)("i").Raw(strings.NewReader(`{}`)).Do(ctx))
	}),
	web("opensearch-go", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		background, stop := context.WithCancel(ctx)
		stop() // as in clients
		c, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{Addresses: []string{base}, Transport: hc.Transport, DisableRetry: true, Context: background}})
		if err != nil {
			return err
		}
		return last(c.Index(ctx, opensearchapi.IndexReq{Index: "i", Body: strings.NewReader(`{}`)}))
	}),
	asTested("vault api"), asTested("Connect"), asTested("Twirp"), asTested("slack"), asTested("oauth2"), asTested("googleapi"),
	web("minio-go", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		c, err := minio.New(strings.TrimPrefix(base, "http://"), &minio.Options{Creds: credentials.NewStaticV4("x", "x", ""), Transport: hc.Transport, MaxRetries: 1, Region: "x"})
		if err != nil {
			return err
		}
		return last(c.PutObject(ctx, "bucket", "x", strings.NewReader("x"), 1, minio.PutObjectOptions{}))
	}),
	web("meilisearch-go", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		c := meilisearch.New(base, meilisearch.WithCustomClient(hc), meilisearch.DisableRetries())
		return last(c.Index("x").AddDocumentsWithContext(ctx, []map[string]int{{"id": 1}}, nil))
	}),
	web("go-containerregistry", "no", func(ctx context.Context, base string, hc *http.Client, _ string) error {
		ref, err := name.ParseReference(strings.TrimPrefix(base, "http://")+"/x:x", name.Insecure)
		if err != nil {
			return err
		}
		return remote.Delete(ref, remote.WithTransport(hc.Transport), remote.WithContext(ctx), remote.WithRetryStatusCodes(), remote.WithRetryPredicate(func(error) bool { return false }))
	}),
	web("AWS SDK v2's DynamoDB", "`ClientRequestToken` and the like", func(ctx context.Context, base string, hc *http.Client, token string) error {
		c := dynamodb.New(dynamodb.Options{BaseEndpoint: &base, Region: "x", HTTPClient: hc, Retryer: aws.NopRetryer{}, Credentials: awscredentials.NewStaticCredentialsProvider("x", "x", "")})
		input := &dynamodb.TransactWriteItemsInput{TransactItems: []dynamodbtypes.TransactWriteItem{{Put: &dynamodbtypes.Put{
			TableName: aws.String("x"), Item: map[string]dynamodbtypes.AttributeValue{"id": &dynamodbtypes.AttributeValueMemberS{Value: "x"}}}}}}
		if token != "" {
			input.ClientRequestToken = &token
		}
		return last(c.TransactWriteItems(ctx, input))
	}),
	web("influxdb-client-go's WriteAPI", "no", func(_ context.Context, base string, hc *http.Client, _ string) error {
		c := influxdb2.NewClientWithOptions(base, "x", influxdb2.DefaultOptions().SetHTTPClient(hc).SetMaxRetries(0).SetBatchSize(1))
		defer c.Close()
		api := c.WriteAPI("x", "x")
		failed := api.Errors()
		api.WriteRecord("x x=1")
		return <-failed
	}),
	{"etcd", "no", overRPC, func(ctx context.Context, network *pipes.Pipes, _ string) error {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{"192.0.2.1:80"}, DialOptions: []grpc.DialOption{dialer(network)}, Logger: zap.NewNop(), MaxUnaryRetries: 1})
		if err != nil {
			return err
		}
		defer c.Close()
		return last(c.Put(ctx, "x", "x"))
	}},
	{"Temporal", "`RequestId`, in that call", overRPC, func(ctx context.Context, network *pipes.Pipes, token string) error {
		c, err := temporal.NewLazyClient(temporal.Options{HostPort: "192.0.2.1:80", Logger: quiet{}, Identity: "x", ConnectionOptions: temporal.ConnectionOptions{DialOptions: []grpc.DialOption{dialer(network)}}})
		if err != nil {
			return err
		}
		defer c.Close()
		if token == "" {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond) // before its first retry
			defer cancel()
			return c.SignalWorkflow(ctx, "x", "", "x", nil)
		}
		return last(c.WorkflowService().SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "x"}, SignalName: "x", RequestId: token}))
	}},
	{"go-redis", "no", overRedis, func(ctx context.Context, network *pipes.Pipes, _ string) error {
		c := redis.NewClient(&redis.Options{Addr: "192.0.2.1:80", Dialer: network.Dial, MaxRetries: -1, DialerRetries: 1})
		defer c.Close()
		return c.Set(ctx, "x", "x", 0).Err()
	}},
	{"go-redis's ClusterClient", "no", overRedis, func(ctx context.Context, network *pipes.Pipes, _ string) error {
		c := redis.NewClusterClient(&redis.ClusterOptions{Dialer: network.Dial, MaxRedirects: -1, ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: "192.0.2.1:80"}}}}, nil
		}})
		defer c.Close()
		return c.Set(ctx, "x", "x", 0).Err()
	}},
	{"rueidis", "no", overRedis, func(ctx context.Context, network *pipes.Pipes, _ string) error {
		c, err := rueidis.NewClient(rueidisOptions(network, true))
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Do(ctx, c.B().Set().Key("x").Value("x").Build()).Error()
	}},
	{"mongo-driver", "the document's `_id`", overMongo, insertToken},
	{"mongo-driver with a deadline", "the document's `_id`", overMongo, func(ctx context.Context, network *pipes.Pipes, token string) error {
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond) // before its first retry
		defer cancel()
		return insertToken(ctx, network, token)
	}},
}

// otherTokens are what docs/clients.md says of clients that have no write here, and why.
var otherTokens = map[string]string{
	"acme":              "no",                                // a nonce of the server's is in each request, and good for one
	"AWS SDK v2":        "`ClientRequestToken` and the like", // its services are made alike: see that of DynamoDB
	"franz-go":          "[below](#kafka)",                   // an idempotent producer numbers its records
	"sarama":            "[below](#kafka)",
	"kafka-go's Writer": "no",
}

// A client that puts a token of its own into a write makes another one for each attempt of a run:
// its server takes the second for another write. With the token set as docs/clients.md says, all
// attempts have the same. A client that makes no token sends the same request again.
func TestTokensOfWrites(t *testing.T) {
	page, tested := ofPage(t), map[string]bool{}
	for _, w := range writes {
		tested[w.client] = true
		t.Run(w.client, func(t *testing.T) {
			row, ok := page[w.client]
			if want := w.token; !ok || row.token != want && !(row.requests == "" && want == "no") {
				t.Errorf("the page has the token %q, want %q", row.token, want)
			}
			makes, set := w.requests(t, ""), w.requests(t, "mine")
			if differ := makes[0] != makes[1]; differ != (w.token != "no") {
				t.Errorf("two attempts differ: %t, and the page says of its token: %q\n%q\n%q", differ, w.token, makes[0], makes[1])
			}
			if set[0] != set[1] {
				t.Errorf("with a token two attempts differ:\n%q\n%q", set[0], set[1])
			}
			if w.token != "no" && !strings.Contains(set[0], "mine") {
				t.Errorf("the token is not in the request:\n%q", set[0])
			}
		})
	}
	for name, token := range otherTokens {
		if tested[name] || page[name].token != token {
			t.Errorf("%s: the page has the token %q, want %q, and a test: %t", name, page[name].token, token, tested[name])
		}
		tested[name] = true
	}
	for name, row := range page {
		if !tested[name] && row.token != "" {
			t.Errorf("the page has the token of %s, of which no write is made", name)
		}
	}
}

// The SDK of AWS puts its token into the caller's input. So an input that is made outside of the
// operation keeps it, and retryvet reports those made inside.
func TestAWSPutsItsTokenIntoTheInput(t *testing.T) {
	base := "http://192.0.2.1"
	c := dynamodb.New(dynamodb.Options{BaseEndpoint: &base, Region: "x", Retryer: aws.NopRetryer{}, Credentials: awscredentials.NewStaticCredentialsProvider("x", "x", ""),
		HTTPClient: &http.Client{Transport: refusing{}}})
	input := &dynamodb.TransactWriteItemsInput{TransactItems: []dynamodbtypes.TransactWriteItem{}}
	if _, err := c.TransactWriteItems(t.Context(), input); err == nil || input.ClientRequestToken == nil {
		t.Errorf("%v, the token is %v", err, input.ClientRequestToken)
	}
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }

// requests returns what the two attempts of a run have sent.
func (w write) requests(t *testing.T, token string) (sent []string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		network := pipes.New()
		var mu sync.Mutex
		stop := w.serve(network, func(request string) {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, request)
		})
		again := retry.Policy{MaxAttempts: 2, Classify: func(error) retry.Class { return retry.Transient }}
		err := retry.Run(ctx, again, func(ctx context.Context) error { return w.call(ctx, network, token) })
		if gaveUp, ok := errors.AsType[*retry.Error](err); !ok || gaveUp.Attempts != 2 {
			t.Errorf("%v, want two attempts that fail", err)
		}
		time.Sleep(time.Second) // some clients still finish what they do beside the call
		stop()
	})
	if len(sent) != 2 {
		t.Fatalf("%d requests by two attempts, want 2: %q", len(sent), sent)
	}
	return sent
}
