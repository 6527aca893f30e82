package clients_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/IBM/sarama"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	coder "github.com/coder/websocket"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/gorilla/websocket"
	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	influxlog "github.com/influxdata/influxdb-client-go/v2/log"
	"github.com/quic-go/quic-go/http3"
	metrics "github.com/rcrowley/go-metrics"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.temporal.io/api/workflowservice/v1"
	temporal "go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/goretry/retry/clienttest/internal/pipes"
)

// many requests within a day are as good as no end.
const many = 200

// A service answers all requests on the network with a failure that passes, and calls seen
// for each. stop ends it.
type service func(network *pipes.Pipes, seen func()) (stop func())

// most returns the most requests that one call makes of a service, whichever it is.
func most(t *testing.T, services []service, call func(ctx context.Context, network *pipes.Pipes) error) (n int64) {
	for _, s := range services {
		n = max(n, requests(t, s, call))
	}
	return n
}

// requests counts the requests that one call makes of s. It does so in a bubble, where
// the client's waits take no time.
func requests(t *testing.T, s service, call func(ctx context.Context, network *pipes.Pipes) error) (n int64) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context()) // without a deadline, which changes what some clients do
		defer cancel()
		defer time.AfterFunc(24*time.Hour, cancel).Stop()
		var seen atomic.Int64
		network := pipes.New()
		stop := s(network, func() {
			if seen.Add(1) == many {
				cancel()
			}
		})
		if err := call(ctx, network); err == nil {
			t.Error("no error")
		}
		n = seen.Load()
		time.Sleep(time.Second) // some clients still finish what they do beside the call
		stop()
	})
	return min(n, many)
}

// A handler handles all requests with a failure, and calls seen for each.
type handler func(seen func()) http.Handler

// webs are servers of HTTP.
func webs(handlers []handler) (all []service) {
	for _, h := range handlers {
		all = append(all, func(network *pipes.Pipes, seen func()) (stop func()) {
			server, done := &http.Server{Handler: h(seen)}, make(chan struct{})
			go func() { defer close(done); _ = server.Serve(network) }()
			return func() { server.Close(); <-done }
		})
	}
	return all
}

// webClient returns a client of the server on the network.
func webClient(network *pipes.Pipes) *http.Client {
	return &http.Client{Transport: &toServer{"192.0.2.1", &http.Transport{DisableKeepAlives: true, DialContext: network.Dial}}}
}

// failing returns handlers that give each answer that is a failure.
func (c *client) failing() (all []handler) {
	for _, a := range answers() {
		if a.fault != "timeout" && a.fault != "refused" {
			all = append(all, func(seen func()) http.Handler { return c.handler(a, nil, seen) })
		}
	}
	return all
}

// firstRecord returns handlers for the clients of InfluxDB that see only requests to write the
// first record.
func firstRecord(handlers []handler) (all []handler) {
	for _, h := range handlers {
		all = append(all, func(seen func()) http.Handler {
			first, later := h(seen), h(func() {})
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err == nil && strings.Contains(string(body), "first") {
					first.ServeHTTP(w, r)
					return
				}
				later.ServeHTTP(w, r)
			})
		})
	}
	return all
}

func unavailable(seen func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seen()
		w.WriteHeader(http.StatusServiceUnavailable)
	})
}

var errAsync = errors.New("the call returns nothing")

// rpcs are servers of gRPC that fail with each code, and one that cuts its connections.
func rpcs() (all []service) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		all = append(all, rpc(func(*pipes.Pipes) error { return status.Error(code, "x") }))
	}
	return append(all, rpc(func(network *pipes.Pipes) error { network.Cut(); return status.Error(codes.Unavailable, "x") }))
}

func rpc(fail func(network *pipes.Pipes) error) service {
	return func(network *pipes.Pipes, seen func()) (stop func()) {
		return serveRPC(network, func(string, []byte) error { seen(); return fail(network) })
	}
}

// serveRPC calls handle for each request but those with which Temporal's client begins.
func serveRPC(network *pipes.Pipes, handle func(method string, request []byte) error) (stop func()) {
	server, done := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		request := &emptypb.Empty{} // which keeps what it does not know
		_ = stream.RecvMsg(request)
		if strings.HasSuffix(method, "/GetSystemInfo") {
			return stream.SendMsg(&emptypb.Empty{})
		}
		return handle(method, request.ProtoReflect().GetUnknown())
	})), make(chan struct{})
	go func() { defer close(done); _ = server.Serve(network) }()
	return func() { server.Stop(); <-done }
}

func dialer(network *pipes.Pipes) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return network.Dial(ctx, "tcp", addr) })
}

// each serves the connections of a network by serve.
func each(network *pipes.Pipes, serve func(net.Conn)) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := network.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); serve(conn) }()
		}
	}()
	return func() { network.Close(); <-done }
}

// redises answer GET with each error that another try may not meet, and one cuts the connection.
func redises() (all []service) {
	for _, answer := range []string{"LOADING x", "TRYAGAIN x", "CLUSTERDOWN x", "MASTERDOWN x", "READONLY x", "BUSY x", "OOM x", "NOREPLICAS x",
		"MOVED 1 192.0.2.1:80", "ASK 1 192.0.2.1:80", "ERR max number of clients reached", ""} {
		all = append(all, redisServer(answer))
	}
	return all
}

// redisServer answers GET with an error, or cuts the connection if that is empty.
func redisServer(answer string) service {
	return func(network *pipes.Pipes, seen func()) (stop func()) {
		return serveRedis(network, answer, func([]string) { seen() })
	}
}

// serveRedis calls got for each GET and SET, and answers these with an error.
func serveRedis(network *pipes.Pipes, answer string, got func(command []string)) (stop func()) {
	return answerRedis(network, func(_ net.Conn, command []string) (reply string) {
		if got(command); answer == "" {
			return ""
		}
		return "-" + answer + "\r\n"
	})
}

// answerRedis answers each GET and SET as reply says, or cuts the connection if that is "".
func answerRedis(network *pipes.Pipes, reply func(conn net.Conn, command []string) string) (stop func()) {
	return each(network, func(conn net.Conn) {
		for r := bufio.NewReader(conn); ; {
			var words int
			if _, err := fmt.Fscanf(r, "*%d\r\n", &words); err != nil {
				return
			}
			command := make([]string, words)
			for i := range command {
				var size int
				if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
					return
				}
				word := make([]byte, size+len("\r\n"))
				if _, err := io.ReadFull(r, word); err != nil {
					return
				}
				command[i] = strings.ToUpper(string(word[:size]))
			}
			answer := "+OK\r\n"
			switch command[0] {
			case "GET", "SET":
				if answer = reply(conn, command); answer == "" {
					return
				}
			case "HELLO":
				answer = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"
			case "COMMAND":
				answer = "*0\r\n"
			case "CLUSTER":
				answer = "-ERR This instance has cluster support disabled\r\n"
			}
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	})
}

// mongos are a mongos that answers an insert with what its primary says that shuts down, and
// one that cuts the connection.
func mongos() []service {
	var all []service
	for _, answer := range []bson.D{shuttingDown, nil} {
		all = append(all, func(network *pipes.Pipes, seen func()) (stop func()) {
			return serveMongo(network, func(net.Conn) bool { return false }, func([]byte) { seen() }, answer)
		})
	}
	return all
}

var shuttingDown = bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 91}, {Key: "errmsg", Value: "x"}, {Key: "errorLabels", Value: bson.A{"RetryableWriteError"}}}

// serveMongo calls got for each insert, with its sections. It cuts the connection if it has no
// answer to that, and answers nothing on one that is silent.
func serveMongo(network *pipes.Pipes, silent func(net.Conn) bool, got func(sections []byte), answerToInsert bson.D) (stop func()) {
	const query, reply, msg = 2004, 1, 2013 // codes of MongoDB's wire protocol
	return each(network, func(conn net.Conn) {
		for {
			header := make([]byte, 16) // length, request, response to, code
			if _, err := io.ReadFull(conn, header); err != nil {
				return
			}
			body := make([]byte, binary.LittleEndian.Uint32(header)-16)
			if _, err := io.ReadFull(conn, body); err != nil {
				return
			}
			if silent(conn) {
				continue
			}
			code, rest := binary.LittleEndian.Uint32(header[12:]), body[5:] // flags, kind of the section
			if code == query {
				rest = body[4:]                                      // flags
				rest = rest[strings.IndexByte(string(rest), 0)+1+8:] // name, skip, number
			}
			elements, err := bson.Raw(rest[:binary.LittleEndian.Uint32(rest)]).Elements()
			if err != nil {
				return
			}
			answer := bson.D{{Key: "ok", Value: 1}}
			switch name := elements[0].Key(); name {
			case "hello", "ismaster", "isMaster":
				answer = append(answer, bson.E{Key: "isWritablePrimary", Value: true}, bson.E{Key: "ismaster", Value: true}, bson.E{Key: "helloOk", Value: true},
					bson.E{Key: "msg", Value: "isdbgrid"}, bson.E{Key: "maxBsonObjectSize", Value: 1 << 24}, bson.E{Key: "maxMessageSizeBytes", Value: 48000000},
					bson.E{Key: "maxWriteBatchSize", Value: 100000}, bson.E{Key: "minWireVersion", Value: 0}, bson.E{Key: "maxWireVersion", Value: 21},
					bson.E{Key: "logicalSessionTimeoutMinutes", Value: 30})
			case "insert":
				if got(rest); answerToInsert == nil {
					return
				}
				answer = answerToInsert
			}
			document, err := bson.Marshal(answer)
			if err != nil {
				return
			}
			head, answerCode := make([]byte, 5), msg // flags, kind of the section
			if code == query {
				head, answerCode = make([]byte, 20), reply // flags, cursor, start, number
				head[16] = 1
			}
			out := binary.LittleEndian.AppendUint32(nil, uint32(16+len(head)+len(document)))
			out = binary.LittleEndian.AppendUint32(out, 0)
			out = append(out, header[4:8]...)
			out = binary.LittleEndian.AppendUint32(out, uint32(answerCode))
			if _, err := conn.Write(append(append(out, head...), document...)); err != nil {
				return
			}
		}
	})
}

// kafkas answer with each error that another try may not meet: too few replicas are in sync, the
// partition has another leader, or the write took too long.
func kafkas() (all []service) {
	for _, err := range []*kerr.Error{kerr.NotEnoughReplicas, kerr.NotLeaderForPartition, kerr.RequestTimedOut} {
		all = append(all, kafkaServer(err.Code, always))
	}
	return all
}

func always() bool { return true }

// kafkaServer answers with an error, or cuts the connection if that is 0, as long as fails says so.
func kafkaServer(code int16, fails func() bool) service {
	return func(network *pipes.Pipes, seen func()) (stop func()) {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "topic"), kfake.ListenFn(func(string, string) (net.Listener, error) { return network, nil }))
		if err != nil {
			panic(err)
		}
		c.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			seen()
			switch {
			case !fails():
				return nil, nil, false
			case code == 0:
				return nil, io.ErrUnexpectedEOF, true
			}
			return refusal(request, code), nil, true
		})
		return c.Close
	}
}

// If a connection is cut, franz-go goes on until it knows whether the record was written, whatever
// its settings and its context say, unless it is allowed to give up.
func TestFranzGoGoesOnUntilItKnows(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			network, start := pipes.New(), time.Now()
			stop := kafkaServer(0, func() bool { return time.Since(start) < time.Hour })(network, func() {})
			options := []kgo.Opt{kgo.SeedBrokers("192.0.2.1:80"), kgo.Dialer(network.Dial), kgo.RecordRetries(1), kgo.RecordDeliveryTimeout(2 * time.Second)}
			if allowed {
				options = append(options, kgo.AllowIdempotentProduceCancellation())
			}
			c, err := kgo.NewClient(options...)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			err = c.ProduceSync(ctx, &kgo.Record{Topic: "topic", Value: []byte("x")}).FirstErr()
			if took := time.Since(start); (took >= time.Hour) == allowed || allowed == (err == nil) {
				t.Errorf("allowed to give up: %v: it ended after %v, with %v", allowed, took, err)
			}
			c.Close()
			stop()
		})
	}
}

func insert(ctx context.Context, network *pipes.Pipes, once bool) error {
	o := options.Client().ApplyURI("mongodb://192.0.2.1:80").SetDialer(contextDialer(network.Dial))
	if once {
		o.SetRetryWrites(false).SetRetryReads(false)
	}
	c, err := mongo.Connect(o)
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect(context.WithoutCancel(ctx)) }()
	return last(c.Database("x").Collection("x").InsertOne(ctx, bson.D{}))
}

func init() {
	metrics.UseNilMetrics = true // sarama's would start a goroutine for ever, and keep its bubble alive
	influxlog.Log = nil
	redis.SetLogger(quiet{})
}

// proxied dials for sarama.
type proxied struct{ *pipes.Pipes }

func (p proxied) Dial(network, addr string) (net.Conn, error) {
	return p.Pipes.Dial(context.Background(), network, addr)
}

// notHTTP are clients that do not speak HTTP, or not by an http.Client, and calls that
// differ from their clients' others.
var notHTTP = []struct {
	name, module, off string // as of a client
	fail              []service
	call              func(ctx context.Context, network *pipes.Pipes, once bool) error
}{
	{"gRPC", "google.golang.org/grpc", "", rpcs(), func(ctx context.Context, network *pipes.Pipes, _ bool) error {
		cc, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()), dialer(network))
		if err != nil {
			return err
		}
		defer cc.Close()
		return cc.Invoke(ctx, "/x.X/X", &emptypb.Empty{}, &emptypb.Empty{})
	}},
	{"etcd", "go.etcd.io/etcd/client/v3", "`Config.MaxUnaryRetries: 1`; 0 means 100", rpcs(), func(ctx context.Context, network *pipes.Pipes, once bool) error {
		config := clientv3.Config{Endpoints: []string{"192.0.2.1:80"}, DialOptions: []grpc.DialOption{dialer(network)}, Logger: zap.NewNop()}
		if once {
			config.MaxUnaryRetries = 1
		}
		c, err := clientv3.New(config)
		if err != nil {
			return err
		}
		defer c.Close()
		return last(c.Get(ctx, "x"))
	}},
	{"Temporal", "go.temporal.io/sdk", "a call of `WorkflowService()`", rpcs(), func(ctx context.Context, network *pipes.Pipes, once bool) error {
		c, err := temporal.NewLazyClient(temporal.Options{HostPort: "192.0.2.1:80", Logger: quiet{}, ConnectionOptions: temporal.ConnectionOptions{DialOptions: []grpc.DialOption{dialer(network)}}})
		if err != nil {
			return err
		}
		defer c.Close()
		if once {
			return last(c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{}))
		}
		return c.CancelWorkflow(ctx, "x", "")
	}},
	{"AWS SDK v2's DynamoDB", "github.com/aws/aws-sdk-go-v2", "`config.WithRetryer` with `aws.NopRetryer`", webs(new(client).failing()), func(ctx context.Context, network *pipes.Pipes, once bool) error {
		base := "http://192.0.2.1"
		options := dynamodb.Options{BaseEndpoint: &base, Region: "x", HTTPClient: webClient(network), Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")}
		if once {
			options.Retryer = aws.NopRetryer{}
		}
		return last(dynamodb.New(options).ListTables(ctx, &dynamodb.ListTablesInput{}))
	}},
	{"influxdb-client-go's WriteAPI", "github.com/influxdata/influxdb-client-go/v2", "`SetMaxRetries(0)`", webs(firstRecord(new(client).failing())), func(ctx context.Context, network *pipes.Pipes, once bool) error {
		options := influxdb2.DefaultOptions().SetHTTPClient(webClient(network))
		if once {
			options.SetMaxRetries(0)
		}
		c := influxdb2.NewClientWithOptions("http://192.0.2.1", "x", options)
		defer c.Close()
		api := c.WriteAPI("x", "x")
		go func() {
			for range api.Errors() {
			}
		}()
		api.WriteRecord("first x=1")
		for range 15 { // it repeats a write when there is another, and keeps few
			time.Sleep(20 * time.Second)
			api.WriteRecord("later x=1")
		}
		return errAsync
	}},
	{"go-redis", "github.com/redis/go-redis/v9", "`Options.MaxRetries: -1`, and `DialerRetries: 1` for its dials", redises(), func(ctx context.Context, network *pipes.Pipes, once bool) error {
		options := &redis.Options{Addr: "192.0.2.1:80", Dialer: network.Dial}
		if once {
			options.MaxRetries, options.DialerRetries = -1, 1
		}
		c := redis.NewClient(options)
		defer c.Close()
		return c.Get(ctx, "x").Err()
	}},
	{"go-redis's ClusterClient", "github.com/redis/go-redis/v9", "`ClusterOptions.MaxRedirects: -1`", redises(), func(ctx context.Context, network *pipes.Pipes, once bool) error {
		options := &redis.ClusterOptions{Dialer: network.Dial, ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: "192.0.2.1:80"}}}}, nil
		}}
		if once {
			options.MaxRedirects = -1
		}
		c := redis.NewClusterClient(options)
		defer c.Close()
		return c.Get(ctx, "x").Err()
	}},
	{"rueidis", "github.com/redis/rueidis", "`DisableRetry: true`", redises(), func(ctx context.Context, network *pipes.Pipes, once bool) error {
		c, err := rueidis.NewClient(rueidisOptions(network, once))
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Do(ctx, c.B().Get().Key("x").Build()).Error()
	}},
	{"redigo", "github.com/gomodule/redigo", "", redises(), func(ctx context.Context, network *pipes.Pipes, _ bool) error {
		c, err := redigo.DialContext(ctx, "tcp", "192.0.2.1:80", redigo.DialContextFunc(network.Dial))
		if err != nil {
			return err
		}
		defer c.Close()
		return last(redigo.DoContext(c, ctx, "GET", "x"))
	}},
	{"mongo-driver", "go.mongodb.org/mongo-driver/v2", "`SetRetryWrites(false)`, `SetRetryReads(false)`", mongos(), insert},
	{"mongo-driver with a deadline", "go.mongodb.org/mongo-driver/v2", "`SetRetryWrites(false)`, `SetRetryReads(false)`", mongos(), func(ctx context.Context, network *pipes.Pipes, once bool) error {
		ctx, cancel := context.WithTimeout(ctx, 24*time.Hour)
		defer cancel()
		return insert(ctx, network, once)
	}},
	// After other errors franz-go goes on until it knows whether the record was written: see below.
	{"franz-go", "github.com/twmb/franz-go", "leave them on", kafkas()[:1], func(ctx context.Context, network *pipes.Pipes, once bool) error {
		options := []kgo.Opt{kgo.SeedBrokers("192.0.2.1:80"), kgo.Dialer(network.Dial)}
		if once {
			options = append(options, kgo.RecordRetries(0))
		}
		c, err := kgo.NewClient(options...)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.ProduceSync(ctx, &kgo.Record{Topic: "topic", Value: []byte("x")}).FirstErr()
	}},
	{"sarama", "github.com/IBM/sarama", "`Producer.Retry.Max = 0`", append(kafkas(), kafkaServer(0, always)), func(_ context.Context, network *pipes.Pipes, once bool) error {
		config := sarama.NewConfig()
		config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, proxied{network}
		if once {
			config.Producer.Retry.Max = 0
		}
		// A SyncProducer keeps channels for the next one, which is in another bubble.
		p, err := sarama.NewAsyncProducer([]string{"192.0.2.1:80"}, config)
		if err != nil {
			return err
		}
		defer p.Close()
		p.Input() <- &sarama.ProducerMessage{Topic: "topic", Value: sarama.StringEncoder("x")}
		return <-p.Errors()
	}},
	{"kafka-go's Writer", "github.com/segmentio/kafka-go", "`MaxAttempts: 1`", append(kafkas(), kafkaServer(0, always)), func(ctx context.Context, network *pipes.Pipes, once bool) error {
		tr := &kafka.Transport{Dial: network.Dial}
		defer tr.CloseIdleConnections()
		w := &kafka.Writer{Addr: kafka.TCP("192.0.2.1:80"), Topic: "topic", Transport: tr, RequiredAcks: kafka.RequireAll} // else it hears nothing
		if once {
			w.MaxAttempts = 1
		}
		defer w.Close()
		return w.WriteMessages(ctx, kafka.Message{Value: []byte("x")})
	}},
	{"gorilla/websocket", "github.com/gorilla/websocket", "", webs(new(client).failing()), func(ctx context.Context, network *pipes.Pipes, _ bool) error {
		_, _, err := (&websocket.Dialer{NetDialContext: network.Dial}).DialContext(ctx, "ws://192.0.2.1", nil)
		return err
	}},
	{"coder/websocket", "github.com/coder/websocket", "", webs(new(client).failing()), func(ctx context.Context, network *pipes.Pipes, _ bool) error {
		_, _, err := coder.Dial(ctx, "ws://192.0.2.1", &coder.DialOptions{HTTPClient: webClient(network)})
		return err
	}},
}

func rueidisOptions(network *pipes.Pipes, once bool) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{"192.0.2.1:80"}, DisableRetry: once,
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return network.Dial(ctx, "tcp", addr)
		}}
}

type contextDialer func(ctx context.Context, network, addr string) (net.Conn, error)

func (d contextDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// overQUIC counts the requests of one call by quic-go's http3. It needs sockets.
func overQUIC(t *testing.T, _ bool) int64 {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var seen atomic.Int64
	server := &http3.Server{Handler: unavailable(func() { seen.Add(1) }), TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: certified.TLS.Certificates})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(conn) }()
	defer func() { server.Close(); <-done }()
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	tr := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer tr.Close()
	resp, err := (&http.Client{Transport: tr}).Get("https://" + conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return seen.Load()
}

// quiet is a logger of Temporal's client, and of go-redis.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// A counted is a client, and counts the requests that one failing call of it makes.
type counted struct {
	name, module, off string
	waits             string // what docs/clients.md says of the wait in its errors; "" if it is not known here
	once              int64  // requests without its own retries
	count             func(t *testing.T, once bool) int64
}

// all returns all clients that are counted.
func all() (all []counted) {
	for _, c := range clients {
		if c.module == "" {
			continue // another row of a client, or none
		}
		waits := "no"
		if c.hearsOnly != 0 {
			waits = fmt.Sprintf("on %d", c.hearsOnly)
		} else if c.hears {
			waits = "yes"
		}
		all = append(all, counted{c.name, c.module, c.off, waits, int64(max(1, c.most)), func(t *testing.T, once bool) int64 {
			return most(t, webs(c.failing()), func(ctx context.Context, network *pipes.Pipes) error {
				return c.call(ctx, "http://192.0.2.1", webClient(network), once)
			})
		}})
	}
	for _, c := range notHTTP {
		all = append(all, counted{c.name, c.module, c.off, "", 1, func(t *testing.T, once bool) int64 {
			return most(t, c.fail, func(ctx context.Context, network *pipes.Pipes) error { return c.call(ctx, network, once) })
		}})
	}
	return append(all, counted{"quic-go's http3", "github.com/quic-go/quic-go", "", "", 1, overQUIC})
}

// uncounted are clients that are not counted, and why. docs/clients.md says nothing about
// their retries. CLIENTS.md says what their errors mean.
var uncounted = map[string]string{
	"ollama":         "its module requires that of its server, with gin and bubbletea",
	"containerd":     "its module is that of its daemon, and needs a later Go",
	"docker":         "v28.5 is the client of moby under its old path, which is counted",
	"valkey-go":      "a fork of rueidis, which is counted",
	"amqp091-go":     "needs a broker: it has no call that a listener could fail, but a connection that ends",
	"gocql":          "needs a cluster, whose nodes it looks up before its first call",
	"go-mssqldb":     "needs a server that speaks TDS",
	"clickhouse-go":  "needs a server that speaks its protocol",
	"neo4j":          "needs a server that speaks Bolt",
	"go-ldap":        "needs a server that speaks LDAP",
	"pkg/sftp":       "needs a server that speaks SSH",
	"nats.go":        "needs a server of NATS: see retrynats",
	"Google's Drive": "a client of googleapi, which is counted; its uploads of files in chunks are not",
}

// pageRow is what docs/clients.md says of a client's retries.
type pageRow struct{ version, requests, off, waits, token string }

// text returns docs/clients.md, and CLIENTS.md, which has more of it.
func text(t *testing.T) string {
	guide, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile("../CLIENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(guide) + string(more)
}

// words returns the page without its line ends.
func words(t *testing.T) string { return strings.Join(strings.Fields(text(t)), " ") }

// ofPage returns what docs/clients.md says, by client.
func ofPage(t *testing.T) map[string]pageRow {
	rows := map[string]pageRow{}
	section := ""
	for line := range strings.Lines(text(t)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		var row pageRow
		switch {
		case section == "Clients that retry on their own" && len(cells) == 5:
			row = pageRow{requests: cells[1], off: cells[2], waits: cmp.Or(cells[3], "no"), token: cmp.Or(cells[4], "no")}
		case section == "Clients that do not retry" && len(cells) == 2:
			row = pageRow{waits: cmp.Or(cells[1], "no")}
		default:
			continue
		}
		if cells[0] == "client, version" || strings.HasPrefix(cells[0], "-") {
			continue
		}
		for client := range strings.SplitSeq(cells[0], ", ") {
			name, version, ok := cutLast(client, " v")
			if _, twice := rows[name]; !ok || twice {
				t.Errorf("%q has no version, or is listed twice", client)
			}
			row.version = "v" + version
			rows[name] = row
		}
	}
	return rows
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// agrees reports whether the page's number is n, or a range with n.
func (r pageRow) agrees(n, once int64) bool {
	if r.requests == "" {
		return n == once
	}
	if n >= many {
		return r.requests == fmt.Sprintf("%d+", many)
	}
	low, high, ok := strings.Cut(r.requests, "-")
	if !ok {
		return r.requests == fmt.Sprint(n)
	}
	from, _ := strconv.ParseInt(low, 10, 64)
	to, _ := strconv.ParseInt(high, 10, 64)
	return from <= n && n <= to
}

// docs/clients.md says how many requests a failing call makes, what turns the client's own
// retries off, and of which version that is true. Without its retries a client makes one
// request, or as few as a call needs that succeeds.
func TestRetriesOfClients(t *testing.T) {
	page, needed := ofPage(t), versions(t)
	var needServers []string
	for name, why := range uncounted {
		if _, ok := page[name]; ok {
			t.Errorf("the page has %s, which is not counted", name)
		}
		if strings.HasPrefix(why, "needs") {
			needServers = append(needServers, name)
		}
	}
	slices.Sort(needServers)
	if want := "Not counted, because they need servers of their own: " + strings.Join(needServers, ", ") + "."; !strings.Contains(words(t), want) {
		t.Errorf("the page does not say %q", want)
	}
	for _, c := range all() {
		row, ok := page[c.name]
		if delete(page, c.name); !ok {
			t.Errorf("the page does not have %s", c.name)
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, once := c.count(t, false), c.count(t, true)
			if !row.agrees(n, c.once) {
				t.Errorf("%d requests by default, the page has %q", n, row.requests)
			}
			if once != c.once {
				t.Errorf("%d requests without its own retries, want %d", once, c.once)
			}
			if row.off != c.off {
				t.Errorf("the page turns its retries off by %q, the test by %q", row.off, c.off)
			}
			if c.waits != "" && row.waits != c.waits {
				t.Errorf("of the wait in its errors the page says %q, want %q", row.waits, c.waits)
			}
			if v := needed[c.module]; v == "" || !strings.HasPrefix(v+".", row.version+".") {
				t.Errorf("the page has version %s, the test %s", row.version, v)
			}
		})
	}
	for name := range page {
		t.Errorf("the page has %s, which is not counted", name)
	}
}

// versions returns the version of each module that go.mod requires.
func versions(t *testing.T) map[string]string {
	b, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if words := strings.Fields(line); len(words) >= 2 && strings.HasPrefix(words[1], "v") {
			found[words[0]] = words[1]
		}
	}
	return found
}
