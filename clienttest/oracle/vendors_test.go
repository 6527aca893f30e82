package oracle_test

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"reflect"
	"strings"
	"syscall"
	"unsafe"

	"connectrpc.com/connect"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/ClickHouse/ch-go"
	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/IBM/sarama"
	"github.com/aerospike/aerospike-client-go/v8"
	asresults "github.com/aerospike/aerospike-client-go/v8/types"
	"github.com/anthropics/anthropic-sdk-go"
	cassandra "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/thrift/lib/go/thrift"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/btcsuite/btcd/btcjson"
	"github.com/bwmarrin/discordgo"
	coder "github.com/coder/websocket"
	confluent "github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/creachadair/jrpc2"
	"github.com/eclipse/paho.golang/autopaho"
	"github.com/elastic/go-elasticsearch/v9/typedapi/types"
	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-smtp"
	"github.com/go-ldap/ldap/v3"
	"github.com/go-sql-driver/mysql"
	"github.com/gocql/gocql"
	"github.com/gomodule/redigo/redis"
	"github.com/google/go-github/v72/github"
	"github.com/gorilla/websocket"
	vault "github.com/hashicorp/vault/api"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
	acmez "github.com/mholt/acmez/v3/acme"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/minio/minio-go/v7"
	mcp "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/db"
	"github.com/nsqio/go-nsq"
	"github.com/olivere/elastic/v7"
	"github.com/openai/openai-go/v3"
	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/pkg/sftp"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	amqp091 "github.com/rabbitmq/amqp091-go"
	legacy "github.com/sashabaranov/go-openai"
	"github.com/segmentio/kafka-go"
	"github.com/sijms/go-ora/v2/network"
	"github.com/slack-go/slack"
	"github.com/sourcegraph/jsonrpc2"
	"github.com/stripe/stripe-go/v83"
	twilio "github.com/twilio/twilio-go/client"
	"github.com/twitchtv/twirp"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/ssh"
	"golang.org/x/net/http2"
	"golang.org/x/oauth2"
	"golang.org/x/sys/unix"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrysql"
)

// A client makes the error of its library for a sample, or nil if it has none. Its library
// would make the same of such an answer of its server.
type client struct {
	name string
	make func(sample) error
}

// A vendor is a table with its clients.
type vendor struct {
	classify retry.Classifier // as a user of the clients would set it; nil means DefaultClassifier
	clients  []client
}

// vendors are the tables that have clients.
var vendors = map[string]vendor{
	"acme": {clients: []client{
		{"x/crypto's acme", func(s sample) error { return &acme.Error{StatusCode: s.status, ProblemType: acmeType + s.code} }},
		{"acmez", func(s sample) error { return acmez.Problem{Status: s.status, Type: acmeType + s.code} }},
	}},
	"aerospike": {clients: []client{
		{"aerospike-client-go", func(s sample) error { return &aerospike.AerospikeError{ResultCode: asresults.ResultCode(s.number)} }},
	}},
	"amqp091": {clients: []client{
		{"amqp091-go", func(s sample) error { return &amqp091.Error{Code: s.number, Reason: s.name} }},
	}},
	"amqp10": {clients: []client{
		{"go-amqp", func(s sample) error { return &amqp.Error{Condition: amqp.ErrCond(s.code)} }},
		{"go-amqp's links", func(s sample) error { return &amqp.LinkError{RemoteErr: &amqp.Error{Condition: amqp.ErrCond(s.code)}} }},
	}},
	"anthropic": {clients: []client{
		{"anthropic-sdk-go", func(s sample) error {
			e := &anthropic.Error{StatusCode: s.status, Request: request, Response: response(s.status)}
			setHidden(e, "errorType", s.code)
			return e
		}},
	}},
	"aws": {clients: []client{
		{"AWS SDK", byAWS},
		{"minio-go", func(s sample) error {
			if strings.Contains(s.row.Code, " ") {
				return nil // of a service
			}
			return minio.ErrorResponse{Code: s.code, StatusCode: or(s.status, 400)}
		}},
	}},
	"awstext": {clients: []client{
		{"AWS SDK", func(s sample) error {
			message := s.code + ". An update is in progress for resource: arn:aws:lambda:us-east-1:123456789012:function:a-name-that-makes-it-longer-than-any-text"
			return &smithy.OperationError{ServiceID: "Lambda", OperationName: "Call", Err: &awshttp.ResponseError{
				ResponseError: &smithyhttp.ResponseError{
					Response: &smithyhttp.Response{Response: response(409)},
					Err:      &smithy.GenericAPIError{Code: s.name, Message: message},
				},
			}}
		}},
	}},
	"azure": {clients: []client{
		{"azcore", func(s sample) error {
			return &azcore.ResponseError{ErrorCode: s.code, StatusCode: s.status, RawResponse: response(s.status)}
		}},
	}},
	"bitcoin": {clients: []client{
		{"btcjson", func(s sample) error { return btcjson.NewRPCError(btcjson.RPCErrorCode(s.number), "x") }},
	}},
	"cassandra": {clients: []client{
		{"gocql", func(s sample) error {
			e := &gocql.RequestErrUnprepared{}
			setHidden(e, "errorFrame.code", s.number)
			return e
		}},
		{"cassandra-gocql-driver", func(s sample) error {
			e := &cassandra.RequestErrUnprepared{}
			setHidden(e, "errorFrame.code", s.number)
			return e
		}},
	}},
	"clickhouse": {clients: []client{
		{"clickhouse-go", func(s sample) error { return &clickhouse.Exception{Code: int32(s.number)} }},
		{"ch-go", func(s sample) error { return &ch.Exception{Code: chproto.Error(s.number)} }},
	}},
	"couchbase": {clients: []client{
		{"gocb", func(s sample) error {
			return &gocb.KeyValueError{StatusCode: memd.StatusCode(s.number), InnerError: errors.New("x")}
		}},
	}},
	"discord": {clients: []client{
		{"discordgo", func(s sample) error {
			return &discordgo.RESTError{Request: request, Response: response(or(s.status, 400)), Message: &discordgo.APIErrorMessage{Code: s.number}}
		}},
	}},
	"elasticsearch": {clients: []client{
		{"go-elasticsearch", func(s sample) error {
			return &types.ElasticsearchError{Status: s.status, ErrorCause: types.ErrorCause{Type: s.code}}
		}},
		{"olivere/elastic", func(s sample) error {
			return &elastic.Error{Status: s.status, Details: &elastic.ErrorDetails{Type: s.code}}
		}},
		{"opensearch-go", func(s sample) error {
			return &opensearch.StructError{Status: s.status, Err: opensearch.Err{Type: s.code}}
		}},
	}},
	"errno": {clients: []client{
		{"net", func(s sample) error { return &net.OpError{Op: "read", Net: "tcp", Err: errno(s.code)} }},
		{"syscall", func(s sample) error { return fmt.Errorf("open: %w", errno(s.code)) }},
	}},
	"etcd": {clients: []client{
		{"etcd", func(s sample) error { return rpctypes.Error(status.Error(grpcCode(s.word), s.code)) }},
		{"gRPC", func(s sample) error { return status.Error(grpcCode(s.word), s.code) }},
	}},
	"eventhubs": {clients: []client{
		{"azeventhubs", func(s sample) error { return &azeventhubs.Error{Code: azeventhubs.ErrorCode(s.code)} }},
	}},
	"google": {clients: []client{
		{"googleapi", func(s sample) error {
			return &googleapi.Error{Code: or(s.status, 403), Errors: []googleapi.ErrorItem{{Reason: s.code}}}
		}},
	}},
	"grpc": {clients: []client{
		{"grpc", func(s sample) error { return status.Error(codes.Code(s.number), "x") }},
		{"connect", func(s sample) error {
			if s.number == 0 || s.number > 16 {
				return nil
			}
			return connect.NewWireError(connect.Code(s.number), errors.New("x"))
		}},
	}},
	"grpctext": {clients: []client{
		{"grpc", func(s sample) error {
			return status.Error(grpcCode(or(s.word, "Unauthenticated")), s.code+strings.Repeat("x", 200))
		}},
	}},
	"http": {clients: []client{
		{"retryhttp", func(s sample) error { return &retryhttp.StatusError{Code: s.number} }},
		{"go-github", func(s sample) error { return &github.ErrorResponse{Response: response(s.number)} }},
		{"googleapi", func(s sample) error { return &googleapi.Error{Code: s.number} }},
	}},
	"http2": {clients: []client{
		{"streams", func(s sample) error { return http2.StreamError{StreamID: 1, Code: http2.ErrCode(s.number)} }},
		//lint:ignore SA1019 a client with this package's Transport gets it
		{"connections", func(s sample) error { return http2.GoAwayError{ErrCode: http2.ErrCode(s.number)} }},
	}},
	"http3": {clients: []client{
		{"quic-go", func(s sample) error {
			return &url.Error{Op: "Get", URL: "https://x", Err: &http3.Error{ErrorCode: http3.ErrCode(s.number), Remote: true}}
		}},
	}},
	"imap": {clients: []client{
		{"go-imap", func(s sample) error {
			return &imap.Error{Type: imap.StatusResponseTypeNo, Code: imap.ResponseCode(s.code)}
		}},
	}},
	"jsonrpc": {clients: []client{
		{"ErrorCode() int", func(s sample) error { return rpcError(s.number) }},
	}},
	"kafka": {clients: []client{
		{"franz-go", ofBroker(func(s sample) error { return kerr.ErrorForCode(int16(s.number)) })},
		{"sarama", ofBroker(func(s sample) error { return sarama.KError(s.number) })},
		{"kafka-go", ofBroker(func(s sample) error { return kafka.Error(s.number) })},
		{"confluent-kafka-go", func(s sample) error { return confluent.NewError(confluent.ErrorCode(s.number), "x", false) }},
	}},
	"kubernetes": {clients: []client{
		{"apimachinery", func(s sample) error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReason(s.code), Code: int32(or(s.status, 409))}}
		}},
	}},
	"ldap": {clients: []client{
		{"go-ldap", func(s sample) error { return ldap.NewError(uint16(s.number), errors.New("x")) }},
	}},
	"mongo": {clients: []client{
		{"commands", func(s sample) error { return mongo.CommandError{Code: int32(s.number), Message: "x", Name: s.name} }},
		{"writes", func(s sample) error {
			return mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: s.number, Message: "x"}}}
		}},
	}},
	"mqtt": {clients: []client{
		{"autopaho", func(s sample) error { return &autopaho.ConnackError{ReasonCode: byte(s.number), Err: errors.New("x")} }},
	}},
	"mssql": {clients: []client{
		{"go-mssqldb", func(s sample) error { return mssql.Error{Number: int32(s.number), Class: 16, Message: "x"} }},
	}},
	"mysql": {classify: retrysql.Classify, clients: []client{
		{"go-sql-driver", func(s sample) error {
			e := &mysql.MySQLError{Number: uint16(s.number), Message: "--read-only x"} // of which 1290 speaks
			copy(e.SQLState[:], or(s.word, "HY000"))
			return e
		}},
	}},
	"nats": {clients: []client{
		{"nats.go", func(s sample) error { return &nats.APIError{Code: s.status, ErrorCode: nats.ErrorCode(s.number)} }},
		{"jetstream", func(s sample) error {
			return &jetstream.APIError{Code: s.status, ErrorCode: jetstream.ErrorCode(s.number)}
		}},
	}},
	"neo4j": {clients: []client{
		{"neo4j-go-driver", func(s sample) error { return &db.Neo4jError{Code: s.code} }},
	}},
	"nsq": {clients: []client{
		{"go-nsq", func(s sample) error { return nsq.ErrProtocol{Reason: strings.TrimSuffix(s.row.Code, "*") + " x"} }},
	}},
	"oauth": {clients: []client{
		{"oauth2", func(s sample) error {
			return &url.Error{Op: "Get", URL: "https://x", Err: &oauth2.RetrieveError{Response: response(400), ErrorCode: s.code}}
		}},
	}},
	"openai": {clients: []client{
		{"openai-go", func(s sample) error {
			return &openai.Error{Code: s.code, StatusCode: s.status, Request: request, Response: response(s.status)}
		}},
		{"go-openai", func(s sample) error { return &legacy.APIError{Code: s.code, HTTPStatusCode: s.status} }},
	}},
	"oracle": {clients: []client{
		{"go-ora", func(s sample) error { return &network.OracleError{ErrCode: s.number} }},
	}},
	"prometheus": {clients: []client{
		{"client_golang", func(s sample) error { return &prometheus.Error{Type: prometheus.ErrorType(s.code)} }},
	}},
	"pulsar": {clients: []client{
		{"pulsar-client-go", func(s sample) error {
			e := &pulsar.Error{}
			setHidden(e, "result", pulsar.Result(s.number))
			return e
		}},
	}},
	"redis": {clients: []client{
		{"redigo", func(s sample) error {
			if strings.Contains(s.code, " ") {
				return redis.Error(s.code)
			}
			return redis.Error(s.code + " x")
		}},
	}},
	"reply": {clients: []client{
		{"net/smtp", func(s sample) error { return &textproto.Error{Code: s.number, Msg: "x"} }},
		{"go-smtp", func(s sample) error { return &smtp.SMTPError{Code: s.number, Message: "x"} }},
	}},
	"rocketmq": {clients: []client{
		{"rocketmq-client-go", func(s sample) error { return primitive.MQBrokerErr{ResponseCode: int16(s.number)} }},
	}},
	"rpcobject": {clients: []client{
		{"sourcegraph/jsonrpc2", func(s sample) error { return &jsonrpc2.Error{Code: int64(s.number), Message: "x"} }},
		{"jrpc2", func(s sample) error { return &jrpc2.Error{Code: jrpc2.Code(s.number), Message: "x"} }},
		{"MCP's go-sdk", func(s sample) error { return &mcp.Error{Code: int64(s.number), Message: "x"} }},
		{"btcjson", func(s sample) error { return btcjson.RPCError{Code: btcjson.RPCErrorCode(s.number), Message: "x"} }},
	}},
	"servicebus": {clients: []client{
		{"azservicebus", func(s sample) error { return &azservicebus.Error{Code: azservicebus.Code(s.code)} }},
	}},
	"sftp": {clients: []client{
		{"pkg/sftp", func(s sample) error { return &sftp.StatusError{Code: uint32(s.number)} }},
	}},
	"slack": {clients: []client{
		{"slack-go", func(s sample) error { return slack.SlackErrorResponse{Err: s.code} }},
	}},
	"ssh": {clients: []client{{"x/crypto/ssh", disconnected}}},
	"sshopen": {clients: []client{
		{"x/crypto/ssh", func(s sample) error {
			return &ssh.OpenChannelError{Reason: ssh.RejectionReason(s.number), Message: "x"}
		}},
	}},
	"sqlstate": {classify: retrysql.Classify, clients: []client{
		{"pgx", func(s sample) error { return &pgconn.PgError{Severity: "ERROR", Code: s.code} }},
		{"pq", func(s sample) error { return &pq.Error{Severity: "ERROR", Code: pqerror.Code(s.code)} }},
	}},
	"stripe": {clients: []client{
		{"stripe-go", func(s sample) error {
			return &stripe.Error{Code: stripe.ErrorCode(s.code), HTTPStatusCode: s.status, Type: stripe.ErrorType(s.code)}
		}},
	}},
	"temporal": {clients: []client{
		{"its API", func(s sample) error {
			return serviceerror.FromStatus(status.New(codes.Code(s.number), "x"))
		}},
	}},
	"texts": {clients: []client{
		{"errors.New", func(s sample) error { return fmt.Errorf("call: %w", errors.New(s.code)) }},
	}},
	"thrift": {clients: []client{
		{"thrift", func(s sample) error { return thrift.NewTTransportException(s.number, "x") }},
	}},
	"thriftcall": {clients: []client{
		{"thrift", func(s sample) error { return thrift.NewTApplicationException(int32(s.number), "x") }},
	}},
	"tlsalert": {clients: []client{
		{"crypto/tls", func(s sample) error { return &net.OpError{Op: "remote error", Err: tls.AlertError(s.number)} }},
		{"quic-go", func(s sample) error {
			return &quic.TransportError{ErrorCode: 0x100 + quic.TransportErrorCode(s.number)}
		}},
	}},
	"twilio": {clients: []client{
		{"twilio-go", func(s sample) error { return &twilio.TwilioRestError{Code: s.number, Status: s.status} }},
	}},
	"twirp": {clients: []client{
		{"twirp", func(s sample) error { return twirp.NewError(twirp.ErrorCode(s.code), "x") }},
	}},
	"vault": {clients: []client{
		{"vault api", func(s sample) error { return &vault.ResponseError{StatusCode: s.number} }},
	}},
	"websocket": {clients: []client{
		{"gorilla", func(s sample) error { return &websocket.CloseError{Code: s.number} }},
		{"coder", func(s sample) error { return coder.CloseError{Code: coder.StatusCode(s.number)} }},
	}},
}

const acmeType = "urn:ietf:params:acme:error:"

var request = &http.Request{Method: "GET", URL: &url.URL{Scheme: "https", Host: "x"}}

func response(status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: request}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// byAWS returns the error that any of the SDK's clients returns for a code.
func byAWS(s sample) error {
	service := "Any"
	if strings.Contains(s.row.Code, " ") {
		service = s.word
	}
	return &smithy.OperationError{ServiceID: service, OperationName: "Call", Err: &awshttp.ResponseError{
		ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: response(or(s.status, 400))},
			Err:      &smithy.GenericAPIError{Code: s.code, Message: "x"},
		},
	}}
}

// ofBroker leaves out the codes of librdkafka itself, which no other client has.
func ofBroker(make func(sample) error) func(sample) error {
	return func(s sample) error {
		if s.number < -1 {
			return nil
		}
		return make(s)
	}
}

// disconnected returns the error of a client of SSH whose server ends the handshake with a code.
func disconnected(s sample) error {
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		payload := binary.BigEndian.AppendUint32([]byte{1}, uint32(s.number)) // SSH_MSG_DISCONNECT, then two empty texts
		payload = append(payload, make([]byte, 8)...)
		const padding = 6 // RFC 4253, section 6: to a multiple of eight bytes
		packet := binary.BigEndian.AppendUint32(nil, uint32(1+len(payload)+padding))
		packet = append(append(append(packet, padding), payload...), make([]byte, padding)...)
		go func() { _, _ = io.Copy(io.Discard, there) }()
		_, _ = there.Write(append([]byte("SSH-2.0-x\r\n"), packet...))
	}()
	_, _, _, err := ssh.NewClientConn(here, "x", &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	return err
}

// setHidden sets a field that is not exported, of what e points to.
func setHidden(e any, path string, v any) {
	f := reflect.ValueOf(e).Elem()
	for name := range strings.SplitSeq(path, ".") {
		f = f.FieldByName(name)
	}
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(v).Convert(f.Type()))
}

func errno(name string) syscall.Errno {
	for n := syscall.Errno(1); n < 134; n++ {
		if unix.ErrnoName(n) == name || name == "ENOTSUP" && n == syscall.ENOTSUP || name == "EDEADLOCK" && n == syscall.EDEADLK {
			return n
		}
	}
	panic("oracle: no such errno: " + name)
}

func grpcCode(name string) codes.Code {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if strings.EqualFold(c.String(), name) {
			return c
		}
	}
	panic("oracle: no such code: " + name)
}

// rpcError is an error of JSON-RPC with the method that those of go-ethereum have.
type rpcError int

func (e rpcError) Error() string  { return fmt.Sprint("rpc error ", int(e)) }
func (e rpcError) ErrorCode() int { return int(e) }
