package clienterr

import (
	"reflect"
	"strings"
)

// A kind says what a path leads to.
type kind uint8

const (
	inHTTP   kind = iota + 1 // an HTTP status
	tooMany                  // a time.Time to wait for, of an error that is a 429 by its type
	inStripe                 // a response's header, in which Stripe-Should-Retry overrules the status
	inError                  // an error that says it all
	inGoogle                 // an HTTP status, and reasons that say more
	timeout                  // nowhere: each error of the type is a timeout
	never                    // nowhere: each error of the type is permanent
	inRedis                  // nowhere: the text is judged

	// The next are codes of their own, which say more than a status.
	inGRPC
	inConnect
	inTwirp
	inOpenAI
	inAWS
	inKubernetes
	inPrometheus
	inKafka
	inAMQP
	inMSSQL
	inMySQL
	inCassandra
	inClickHouse
	inNeo4j
	inReply // of SMTP and FTP
	inLDAP
	inSFTP
	inWebSocket
	inOAuth
	inQUIC
	inHTTP3
)

// A rule says what the errors of a type say. A path is names of fields with dots
// between them, which may be unexported; of several paths, with a blank between
// them, the first that exists counts.
type rule struct {
	pkg, name string // of the type; the package's path without major versions. Without a name it is each type of pkg
	kind      kind
	path      string // of what kind judges
}

// rules are the known types. What a rule does not say is read from them as from any
// other type.
var rules = []rule{
	{"google.golang.org/grpc/internal/status", "Error", inGRPC, "s.s.Code e.Code"},
	{"go.temporal.io/api/serviceerror", "", inGRPC, "st.s.Code"},
	{"go.etcd.io/etcd/api/v3rpc/rpctypes", "EtcdError", inGRPC, "code"},
	{"connectrpc.com/connect", "Error", inConnect, "code"},
	{"github.com/twitchtv/twirp", "twerr", inTwirp, "code"},
	{"google.golang.org/api/googleapi", "Error", inGoogle, "Code"},
	{"golang.org/x/oauth2", "RetrieveError", inOAuth, "ErrorCode"},
	{"github.com/go-git/go-git/plumbing", "UnexpectedError", inError, "Err"},
	{"github.com/quic-go/quic-go/internal/qerr", "TransportError", inQUIC, "ErrorCode"},
	{"github.com/quic-go/quic-go/internal/qerr", "IdleTimeoutError", timeout, ""},
	{"github.com/quic-go/quic-go/internal/qerr", "HandshakeTimeoutError", timeout, ""},
	{"github.com/quic-go/quic-go/internal/qerr", "VersionNegotiationError", never, ""},
	{"github.com/quic-go/quic-go/http3", "Error", inHTTP3, "ErrorCode"},
	{"google.golang.org/genai", "APIError", inHTTP, "Code"},
	{"github.com/hashicorp/consul/api", "StatusError", inHTTP, "Code"},
	{"github.com/nats-io/nats.go", "APIError", inHTTP, "Code"},
	{"github.com/nats-io/nats.go", "jsError", inHTTP, "apiErr.Code"},
	{"github.com/nats-io/nats.go/jetstream", "APIError", inHTTP, "Code"},
	{"github.com/nats-io/nats.go/jetstream", "jsError", inHTTP, "apiErr.Code"},
	{"github.com/elastic/go-elasticsearch/typedapi/types", "ElasticsearchError", inHTTP, "Status"},
	{"github.com/opensearch-project/opensearch-go", "", inHTTP, "Status"},
	{"github.com/opensearch-project/opensearch-go/opensearchapi", "", inHTTP, "Status"},
	{"github.com/olivere/elastic", "Error", inHTTP, "Status"},
	{"github.com/twilio/twilio-go/client", "TwilioRestError", inHTTP, "Status"},
	{"github.com/slack-go/slack", "StatusCodeError", inHTTP, "Code"},
	{"github.com/slack-go/slack", "RateLimitedError", tooMany, ""},
	{"github.com/bwmarrin/discordgo", "RateLimitError", tooMany, ""},
	{"github.com/google/go-github/github", "RateLimitError", tooMany, "Rate.Reset.Time"},
	{"github.com/google/go-github/github", "AbuseRateLimitError", tooMany, ""},
	{"github.com/stripe/stripe-go", "Error", inStripe, "LastResponse.Header"},
	{"github.com/openai/openai-go/internal/apierror", "Error", inOpenAI, "Code"},
	{"github.com/sashabaranov/go-openai", "APIError", inOpenAI, "Code"},
	{"github.com/minio/minio-go", "ErrorResponse", inAWS, "Code"},
	{"k8s.io/apimachinery/pkg/api/errors", "StatusError", inKubernetes, "ErrStatus.Reason"},
	{"github.com/prometheus/client_golang/api/prometheus/v1", "Error", inPrometheus, "Type"},
	{"github.com/docker/docker/client", "httpError", inError, "errdef"},
	{"github.com/moby/moby/client", "httpError", inError, "errdef"},
	{"github.com/containerd/errdefs/pkg/internal/cause", "ErrUnexpectedStatus", inHTTP, "Status"},
	{"github.com/twmb/franz-go/pkg/kerr", "Error", inKafka, "Code"},
	{"github.com/IBM/sarama", "KError", inKafka, "."},
	{"github.com/Shopify/sarama", "KError", inKafka, "."},
	{"github.com/segmentio/kafka-go", "Error", inKafka, "."},
	{"github.com/rabbitmq/amqp091-go", "Error", inAMQP, "Code"},
	{"github.com/streadway/amqp", "Error", inAMQP, "Code"},
	{"github.com/gomodule/redigo/redis", "Error", inRedis, ""},
	{"github.com/redis/rueidis", "RedisError", inRedis, ""},
	{"github.com/valkey-io/valkey-go", "ValkeyError", inRedis, ""},
	{"github.com/microsoft/go-mssqldb", "Error", inMSSQL, "Number"},
	{"github.com/denisenkom/go-mssqldb", "Error", inMSSQL, "Number"},
	{"github.com/go-sql-driver/mysql", "MySQLError", inMySQL, "Number"},
	{"github.com/gocql/gocql", "", inCassandra, "errorFrame.code code"},
	{"github.com/apache/cassandra-gocql-driver", "", inCassandra, "errorFrame.code code"},
	{"github.com/ClickHouse/clickhouse-go/lib/proto", "Exception", inClickHouse, "Code"},
	{"github.com/ClickHouse/ch-go", "Exception", inClickHouse, "Code"},
	{"github.com/neo4j/neo4j-go-driver/neo4j/db", "Neo4jError", inNeo4j, "Code"},
	{"net/textproto", "Error", inReply, "Code"},
	{"github.com/go-ldap/ldap", "Error", inLDAP, "ResultCode"},
	{"github.com/pkg/sftp", "StatusError", inSFTP, "Code"},
	{"github.com/gorilla/websocket", "CloseError", inWebSocket, "Code"},
	{"github.com/coder/websocket", "CloseError", inWebSocket, "Code"},
	{"nhooyr.io/websocket", "CloseError", inWebSocket, "Code"},
}

// find returns the rule for a type, or nil.
func find(pkg, name string) *rule {
	pkg = withoutVersions(pkg)
	for i := range rules {
		if r := &rules[i]; r.pkg == pkg && (r.name == "" || r.name == name) {
			return r
		}
	}
	return nil
}

// withoutVersions returns the path of a package without the parts that name a major
// version, such as the v5 in github.com/neo4j/neo4j-go-driver/v5/neo4j/db. There is
// no v1 in such a path, unless it has another meaning.
func withoutVersions(path string) string {
	for from := 0; ; {
		i := strings.Index(path[from:], "/v")
		if i < 0 {
			return path
		}
		begin := from + i
		end := begin + len("/v")
		for end < len(path) && '0' <= path[end] && path[end] <= '9' {
			end++
		}
		version := path[begin+len("/v") : end]
		if version != "" && version != "1" && (end == len(path) || path[end] == '/') {
			path, from = path[:begin]+path[end:], begin
			continue
		}
		from = end
	}
}

// class judges a code. also is what beside it says more: with Connect whether the
// server said so, with Kafka whether the error passes.
func (k kind) class(code, also reflect.Value) Class {
	switch k {
	case inGRPC:
		return GRPC(number(code))
	case inConnect:
		return connectCode(number(code), isTrue(also))
	case inTwirp:
		return twirpCode(text(code))
	case inOpenAI:
		return openai.class(text(code))
	case inAWS:
		return AWS(text(code))
	case inKubernetes:
		return kubernetes.class(text(code))
	case inPrometheus:
		return prometheus.class(text(code))
	case inKafka:
		return kafkaCode(number(code), also)
	case inNeo4j:
		return neo4jCode(text(code))
	case inReply:
		return replyCode(number(code))
	case inMySQL:
		return MySQL(number(code))
	case inAMQP:
		return amqp.class(number(code))
	case inMSSQL:
		return mssql.class(number(code))
	case inCassandra:
		return cassandra.class(number(code))
	case inClickHouse:
		return clickhouse.class(number(code))
	case inLDAP:
		return ldap.class(number(code))
	case inSFTP:
		return sftp.class(number(code))
	case inWebSocket:
		return websocket.class(number(code))
	case inOAuth:
		return oauth.class(text(code))
	case inQUIC:
		return quicCode(number(code))
	case inHTTP3:
		return http3.class(number(code))
	}
	return Unknown
}

// quicCode judges a transport error of QUIC (RFC 9000, section 20.1). From 0x100 on it is an
// alert of TLS. Others leave the connection closed, whatever the cause.
func quicCode(code int64) Class {
	if 0x100 <= code && code <= 0x1ff {
		return Alert(uint64(code - 0x100))
	}
	return Unknown
}

// connectCode judges a code of Connect. canceled, unknown and internal count only if
// they came from the server: else the client has made one of them from an error that
// it wraps, which says more.
func connectCode(code int64, fromServer bool) Class {
	if (code == 1 || code == 2 || code == 13) && !fromServer {
		return Unknown
	}
	return GRPC(code)
}

// twirpCode judges an error of Twirp, whose codes are gRPC's in words.
func twirpCode(code string) Class {
	switch code {
	case "":
		return Unknown
	case "deadline_exceeded":
		return TimedOut
	case "resource_exhausted":
		return Throttled
	case "unavailable":
		return Transient
	}
	return Permanent
}

// kafkaCode judges a code of Kafka. Of one that is newer than the table, an error of
// franz-go says whether it passes.
func kafkaCode(code int64, retriable reflect.Value) Class {
	if c := kafka.class(code); c != Unknown {
		return c
	}
	switch {
	case code <= 0, code > kafkaNewest && !retriable.IsValid():
		return Unknown
	case code > kafkaNewest && isTrue(retriable):
		return Transient
	}
	return Permanent
}

// neo4jCode judges a code such as Neo.TransientError.Transaction.DeadlockDetected.
// Some do not mean what their kind says (github.com/neo4j/neo4j-go-driver,
// neo4j/db/errors.go).
func neo4jCode(code string) Class {
	switch code {
	case "Neo.TransientError.Transaction.Terminated", "Neo.TransientError.Transaction.LockClientStopped",
		"Neo.ClientError.Cluster.NotALeader", "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase",
		"Neo.ClientError.Security.AuthorizationExpired":
		return Unknown
	}
	switch {
	case strings.HasPrefix(code, "Neo.TransientError."):
		return Transient
	case strings.HasPrefix(code, "Neo.ClientError."):
		return Permanent
	}
	return Unknown
}

// replyCode judges a reply of SMTP or FTP (RFC 5321, section 4.2.1; RFC 959, section
// 4.2).
func replyCode(code int64) Class {
	switch code / 100 {
	case 4:
		return Transient
	case 5:
		return Permanent
	}
	return Unknown
}

// redisText judges what Redis or Valkey says, or the client for it: three of them
// have a text for a reply that is nil.
func redisText(text string) Class {
	switch text {
	case "redis: nil", "redis nil message", "valkey nil message":
		return Permanent
	}
	for _, full := range [...]string{"ERR max number of clients reached", "ERR max number of clients + cluster connections reached"} {
		if strings.HasPrefix(text, full) {
			return Throttled
		}
	}
	word, _, _ := strings.Cut(text, " ")
	return redis.class(word)
}

// A mongoError is one of MongoDB's driver.
type mongoError interface {
	HasErrorLabel(string) bool
	HasErrorCode(int) bool
}

func judgeMongo(e mongoError) Class {
	switch {
	case e.HasErrorLabel("SystemOverloadedError"):
		return Throttled
	case e.HasErrorLabel("RetryableWriteError"), e.HasErrorLabel("TransientTransactionError"),
		e.HasErrorLabel("RetryableError"), e.HasErrorLabel("NetworkError"):
		return Transient
	}
	for _, code := range mongo.transient {
		if e.HasErrorCode(int(code)) {
			return Transient
		}
	}
	for _, code := range mongo.permanent {
		if e.HasErrorCode(int(code)) {
			return Permanent
		}
	}
	return Unknown
}
