package clienterr

import "strings"

// A kind says what a path leads to.
type kind uint8

const (
	inCode     kind = iota + 1 // a code of the rule's table
	inHTTP                     // an HTTP status
	inSeconds                  // how long to wait: seconds, or a time.Duration
	inMillis                   // how long to wait: milliseconds
	inHeader                   // an http.Header
	inError                    // an error that says it all
	tooMany                    // a time.Time to wait for, of an error that is a 429 by its type
	timeout                    // nowhere: each error of the type is a timeout
	passing                    // nowhere: each error of the type is transient
	never                      // nowhere: each error of the type is permanent
	renewed                    // nowhere: likewise, and a new session mends it
	blamed                     // nowhere: likewise, and the content of the call is to blame
	connecting                 // nowhere: the error of a connection that did not come about

	// The next need more than a code.
	inConnect    // and whether the server said so
	inLibrdkafka // and whether the client is at its end, and the error passes
	inKafka      // and whether the error passes
	inRedis      // nowhere: the text is judged
	inToken      // nowhere: errors of getting a token, which are about the caller's own credentials
	inFacts      // Facts: an error of this module has read the response
	inQUIC       // an alert of TLS from 0x100 on
	inMySQL      // and a SQLSTATE
	inMSSQL      // and a class of severity
	inSQLite     // extended codes have the primary one in their lowest byte
	inDynamoDB   // reasons of a transaction that was canceled
	inKerberos   // nowhere: the text has a code
	inURN        // the code is behind the last colon

	inWords // a code in words of a type that has no rule
)

// A rule says what the errors of a type say. A path is names of fields with dots
// between them, which may be unexported; of several paths, with a blank between
// them, the first that exists counts. [] is each element of a slice: the first that
// means something counts.
type rule struct {
	pkg, name string // of the types: one or several with blanks between them. A path of a package is without major versions; no name is each type
	kind      kind
	path      string // of what kind judges
	table     *table
}

// rules are the known types. A type may have several: of codes the first that means
// something counts. What a rule does not say is read from its errors as from those of any
// other type.
var rules = []rule{
	{"github.com/goretry/retry/retryhttp", "StatusError", inFacts, "facts", nil},
	{"google.golang.org/grpc/internal/status", "Error", inCode, "s.s.Message e.Message", &grpctextCodes},
	{"google.golang.org/grpc/internal/status", "Error", inCode, "s.s.Message e.Message", &etcdCodes}, // its client turns most of these into its own
	{"google.golang.org/grpc/internal/status", "Error", inCode, "s.s.Code e.Code", &grpcCodes},
	{"go.temporal.io/api/serviceerror", "", inCode, "st.s.Code", &temporalCodes},
	{"go.etcd.io/etcd/api/v3rpc/rpctypes", "EtcdError", inCode, "desc", &etcdCodes},
	{"go.etcd.io/etcd/api/v3rpc/rpctypes", "EtcdError", inCode, "code", &grpcCodes},
	{"connectrpc.com/connect", "Error", inConnect, "code", &grpcCodes},
	{"github.com/twitchtv/twirp", "twerr", inCode, "code", &twirpCodes},
	{"cloud.google.com/go/pubsub", "ErrPublishingPaused", never, "", nil}, // after another error, until ResumePublish
	{"cloud.google.com/go/bigquery", "Error", inCode, "Reason", &googleCodes},
	{"google.golang.org/api/googleapi", "Error", inCode, "Errors[].Reason", &googleCodes},
	{"google.golang.org/api/googleapi", "Error", inHTTP, "Code", nil},
	{"golang.org/x/oauth2", "RetrieveError", inCode, "ErrorCode", &oauthCodes},
	{"golang.org/x/oauth2", "RetrieveError", inToken, "", nil},
	{"cloud.google.com/go/auth", "Error", inCode, "code", &oauthCodes},
	{"cloud.google.com/go/auth", "Error", inToken, "", nil},
	{"github.com/Azure/azure-sdk-for-go/sdk/azidentity", "AuthenticationFailedError", inToken, "", nil},
	{"github.com/go-git/go-git/plumbing", "UnexpectedError", inError, "Err", nil},
	{"github.com/quic-go/quic-go/internal/qerr", "TransportError", inQUIC, "ErrorCode", &tlsalertCodes},
	{"github.com/quic-go/quic-go/internal/qerr", "IdleTimeoutError HandshakeTimeoutError", timeout, "", nil},
	{"github.com/quic-go/quic-go/internal/qerr", "VersionNegotiationError", never, "", nil},
	{"github.com/quic-go/quic-go/http3", "Error", inCode, "ErrorCode", &http3Codes},
	{"google.golang.org/genai", "APIError", inHTTP, "Code", nil},
	{"github.com/hashicorp/consul/api", "StatusError", inHTTP, "Code", nil},
	{"github.com/nats-io/nats.go github.com/nats-io/nats.go/jetstream", "APIError jsError", inCode, "ErrorCode apiErr.ErrorCode", &natsCodes},
	{"github.com/nats-io/nats.go github.com/nats-io/nats.go/jetstream", "APIError jsError", inHTTP, "Code apiErr.Code", nil},
	{"github.com/elastic/go-elasticsearch/typedapi/types", "ElasticsearchError", inCode, "ErrorCause.Type", &elasticsearchCodes},
	{"github.com/elastic/go-elasticsearch/typedapi/types", "ElasticsearchError", inHTTP, "Status", nil},
	{"github.com/opensearch-project/opensearch-go", "StructError", inCode, "Err.Type", &elasticsearchCodes},
	{"github.com/opensearch-project/opensearch-go github.com/opensearch-project/opensearch-go/opensearchapi", "", inHTTP, "Status", nil},
	{"github.com/olivere/elastic", "Error", inCode, "Details.Type", &elasticsearchCodes},
	{"github.com/olivere/elastic", "Error", inHTTP, "Status", nil},
	{"github.com/twilio/twilio-go/client", "TwilioRestError", inCode, "Code", &twilioCodes},
	{"github.com/twilio/twilio-go/client", "TwilioRestError", inHTTP, "Status", nil},
	{"github.com/hashicorp/vault/api", "ResponseError", inCode, "StatusCode", &vaultCodes},
	{"github.com/mymmrac/telego/telegoapi", "Error", inHTTP, "ErrorCode", nil},
	{"github.com/mymmrac/telego/telegoapi", "Error", inSeconds, "Parameters.RetryAfter", nil},
	{"github.com/go-telegram/bot", "TooManyRequestsError", tooMany, "", nil},
	{"github.com/go-telegram/bot", "TooManyRequestsError", inSeconds, "RetryAfter", nil},
	{"github.com/go-telegram-bot-api/telegram-bot-api gopkg.in/telebot.v3 gopkg.in/telebot.v4", "Error", inHTTP, "Code", nil},
	{"github.com/go-telegram-bot-api/telegram-bot-api", "Error", inSeconds, "RetryAfter", nil},
	{"gopkg.in/telebot.v3 gopkg.in/telebot.v4", "FloodError", tooMany, "", nil},
	{"gopkg.in/telebot.v3 gopkg.in/telebot.v4", "FloodError", inSeconds, "RetryAfter", nil},
	{"github.com/bold-commerce/go-shopify", "ResponseError RateLimitError ResponseDecodingError", inHTTP, "Status", nil},
	{"github.com/bold-commerce/go-shopify", "RateLimitError", inSeconds, "RetryAfter", nil},
	{"github.com/slack-go/slack", "StatusCodeError", inHTTP, "Code", nil},
	{"github.com/slack-go/slack", "SlackErrorResponse", inCode, "Err", &slackCodes},
	{"github.com/slack-go/slack", "RateLimitedError", tooMany, "", nil},
	{"github.com/bwmarrin/discordgo", "RESTError", inCode, "Message.Code", &discordCodes},
	{"github.com/bwmarrin/discordgo", "RateLimitError", tooMany, "", nil},
	{"github.com/google/go-github/github", "RateLimitError", tooMany, "Rate.Reset.Time", nil},
	{"github.com/google/go-github/github", "AbuseRateLimitError", tooMany, "", nil},
	{"github.com/stripe/stripe-go", "Error", inHeader, "LastResponse.Header", nil},
	{"github.com/stripe/stripe-go", "Error", inCode, "Code", &stripeCodes},
	{"github.com/stripe/stripe-go", "Error", inCode, "Type", &stripeCodes},
	{"github.com/openai/openai-go/internal/apierror", "Error", inCode, "Code", &openaiCodes},
	{"github.com/anthropics/anthropic-sdk-go/internal/apierror", "Error", inCode, "errorType", &anthropicCodes},
	{"github.com/sashabaranov/go-openai", "APIError", inCode, "Code", &openaiCodes},
	{"github.com/minio/minio-go", "ErrorResponse", inCode, "Code", &awsCodes},
	{"github.com/aws/aws-sdk-go-v2/service/dynamodb/types", "TransactionCanceledException", inDynamoDB, "CancellationReasons[].Code", &awsCodes},
	{"github.com/Azure/azure-sdk-for-go/sdk/azcore/internal/exported", "ResponseError", inCode, "ErrorCode", &azureCodes},
	{"github.com/alibabacloud-go/tea/tea github.com/alibabacloud-go/tea/dara", "SDKError", inCode, "Code", &alibabaCodes},
	{"github.com/alibabacloud-go/darabonba-openapi/client", "AlibabaCloudError ClientError ServerError ThrottlingError", inCode, "Code", &alibabaCodes},
	{"github.com/alibabacloud-go/darabonba-openapi/client", "AlibabaCloudError ClientError ServerError ThrottlingError", inMillis, "RetryAfter", nil},
	{"github.com/aliyun/alibaba-cloud-sdk-go/sdk/errors", "ServerError", inCode, "errorCode", &alibabaCodes},
	{"github.com/aliyun/alibaba-cloud-sdk-go/sdk/errors", "ServerError", inHTTP, "httpStatus", nil},
	{"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common/errors", "TencentCloudSDKError", inCode, "Code", &tencentCodes},
	{"github.com/oracle/oci-go-sdk/common", "servicefailure", inCode, "Code", &ociCodes},
	{"github.com/hetznercloud/hcloud-go/hcloud", "Error", inCode, "Code", &hcloudCodes},
	{"github.com/hetznercloud/hcloud-go/hcloud", "Error", inHTTP, "response.Response.StatusCode", nil},
	{"github.com/google/go-containerregistry/pkg/v1/remote/transport", "Error", inCode, "Errors[].Code", &registryCodes},
	{"github.com/influxdata/influxdb-client-go/api/http", "Error", inSeconds, "RetryAfter", nil},
	{"k8s.io/apimachinery/pkg/api/errors", "StatusError", inCode, "ErrStatus.Reason", &kubernetesCodes},
	{"k8s.io/apimachinery/pkg/api/errors", "StatusError", inHTTP, "ErrStatus.Code", nil},
	{"k8s.io/apimachinery/pkg/api/errors", "StatusError", inSeconds, "ErrStatus.Details.RetryAfterSeconds", nil},
	{"golang.org/x/crypto/acme", "Error", inURN, "ProblemType", &acmeCodes},
	{"golang.org/x/crypto/acme", "AuthorizationError OrderError", renewed, "", nil}, // what is invalid stays so
	{"github.com/mholt/acmez/acme", "Problem", inURN, "Type", &acmeCodes},
	{"github.com/mholt/acmez/acme", "Problem", inHTTP, "Status", nil},
	{"github.com/go-acme/lego/acme", "ProblemDetails NonceError AlreadyReplacedError RateLimitedError", inURN, "Type", &acmeCodes},
	{"github.com/prometheus/client_golang/api/prometheus/v1", "Error", inCode, "Type", &prometheusCodes},
	{"github.com/btcsuite/btcd/btcjson", "RPCError", inCode, "Code", &bitcoinCodes},
	{"github.com/docker/docker/client github.com/moby/moby/client", "httpError", inError, "errdef", nil},
	{"github.com/containerd/errdefs/pkg/internal/cause", "ErrUnexpectedStatus", inHTTP, "Status", nil},
	{"github.com/twmb/franz-go/pkg/kerr", "Error", inKafka, "Code", &kafkaCodes},
	{"github.com/confluentinc/confluent-kafka-go/kafka", "Error", inLibrdkafka, "code", &kafkaCodes},
	{"github.com/IBM/sarama github.com/Shopify/sarama github.com/segmentio/kafka-go", "KError Error", inKafka, ".", &kafkaCodes},
	{"github.com/rabbitmq/amqp091-go github.com/streadway/amqp", "Error", inCode, "Code", &amqp091Codes},
	{"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal/exported", "Error", inCode, "Code", &servicebusCodes},
	{"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/internal/exported", "Error", inCode, "Code", &eventhubsCodes},
	{"github.com/apache/pulsar-client-go/pulsar", "Error", inCode, "result", &pulsarCodes},
	{"github.com/apache/rocketmq-client-go/primitive", "MQBrokerErr", inCode, "ResponseCode", &rocketmqCodes},
	{"github.com/nsqio/go-nsq", "ErrProtocol ErrIdentify", inCode, "Reason", &nsqCodes},
	{"github.com/eclipse/paho.golang/autopaho", "ConnackError", inCode, "ReasonCode", &mqttCodes},
	{"github.com/Azure/go-amqp/internal/encoding", "Error", inCode, "Condition", &amqp10Codes},
	{"github.com/gomodule/redigo/redis", "Error", inRedis, "", nil},
	{"github.com/redis/rueidis github.com/valkey-io/valkey-go", "RedisError ValkeyError", inRedis, "", nil},
	{"github.com/microsoft/go-mssqldb github.com/denisenkom/go-mssqldb", "Error", inMSSQL, "Number", &mssqlCodes},
	{"github.com/go-sql-driver/mysql", "MySQLError", inMySQL, "Number", &mysqlCodes},
	{"github.com/mattn/go-sqlite3", "Error", inSQLite, "ExtendedCode", &sqliteCodes},
	{"github.com/mattn/go-sqlite3", "Error", inSQLite, "Code", &sqliteCodes},
	{"modernc.org/sqlite", "Error", inSQLite, "code", &sqliteCodes},
	{"github.com/duckdb/duckdb-go github.com/marcboeker/go-duckdb", "Error", inCode, "Type", &duckdbCodes},
	{"github.com/sijms/go-ora/network", "OracleError", inCode, "ErrCode", &oracleCodes},
	{"github.com/snowflakedb/gosnowflake", "SnowflakeError", inCode, "Number", &snowflakeCodes},
	{"github.com/snowflakedb/gosnowflake", "SnowflakeError", inCode, "SQLState", &sqlstateCodes},
	{"github.com/nakagami/firebirdsql", "FbError", inCode, "GDSCodes[]", &firebirdCodes},
	{"github.com/nakagami/firebirdsql", "FbError", inCode, "SQLState", &sqlstateCodes},
	{"github.com/vertica/vertica-sql-go", "VError", inCode, "SQLState", &sqlstateCodes},
	{"github.com/couchbase/gocb github.com/couchbase/gocbcore", "KeyValueError", inCode, "StatusCode", &couchbaseCodes},
	{"github.com/aerospike/aerospike-client-go", "AerospikeError", inCode, "ResultCode", &aerospikeCodes},
	{"github.com/ydb-platform/ydb-go-sdk/internal/xerrors", "operationError", inCode, "code", &ydbCodes},
	{"github.com/godror/godror", "OraErr", inCode, "code", &oracleCodes},
	{"github.com/SAP/go-hdb/driver/internal/protocol", "HdbError", inCode, "errorCode", &hanaCodes},
	{"github.com/jackc/pgx/pgconn github.com/jackc/pgconn", "ConnectError connectError", connecting, "", nil},
	{"github.com/gocql/gocql github.com/apache/cassandra-gocql-driver", "", inCode, "errorFrame.code code", &cassandraCodes},
	{"github.com/ClickHouse/clickhouse-go/lib/proto github.com/ClickHouse/ch-go", "Exception", inCode, "Code", &clickhouseCodes},
	{"github.com/trinodb/trino-go-client/trino", "ErrTrino", inCode, "ErrorCode", &trinoCodes},
	{"github.com/trinodb/trino-go-client/trino", "ErrTrino", inCode, "ErrorType", &trinotypeCodes},
	{"github.com/neo4j/neo4j-go-driver/neo4j/db", "Neo4jError", inCode, "Code", &neo4jCodes},
	{"net/textproto", "Error", inCode, "Code", &replyCodes},
	{"github.com/emersion/go-imap", "Error", inCode, "Code", &imapCodes},
	{"github.com/emersion/go-smtp", "SMTPError", inCode, "Code", &replyCodes},
	{"github.com/jcmturner/gokrb5/messages", "KRBError", inCode, "ErrorCode", &kerberosCodes},
	{"github.com/jcmturner/gokrb5/krberror", "Krberror", inKerberos, "", &kerberosCodes},
	{"github.com/jcmturner/gokrb5/krberror", "Krberror", inCode, "RootCause", &krberrorCodes},
	{"github.com/hirochachacha/go-smb2 github.com/cloudsoda/go-smb2", "ResponseError", inCode, "Code", &ntstatusCodes},
	{"github.com/go-ldap/ldap", "Error", inCode, "ResultCode", &ldapCodes},
	{"net/http golang.org/x/net/http2", "http2StreamError http2GoAwayError StreamError GoAwayError", inCode, "Code ErrCode", &http2Codes},
	{"github.com/apache/thrift/lib/go/thrift", "tTransportException", inCode, "typeId", &thriftCodes},
	{"github.com/apache/thrift/lib/go/thrift", "tApplicationException", inCode, "type_", &thriftcallCodes},
	{"golang.org/x/crypto/ssh", "disconnectMsg", inCode, "Reason", &sshCodes},
	{"golang.org/x/crypto/ssh", "OpenChannelError", inCode, "Reason", &sshopenCodes},
	{"golang.org/x/crypto/ssh", "AlgorithmNegotiationError PassphraseMissingError", never, "", nil},
	{"golang.org/x/crypto/ssh/knownhosts", "KeyError RevokedError", never, "", nil},
	{"github.com/pkg/sftp", "StatusError", inCode, "Code", &sftpCodes},
	{"github.com/gorilla/websocket github.com/coder/websocket nhooyr.io/websocket", "CloseError", inCode, "Code", &websocketCodes},

	// Marks of the packages that others retry with.
	{"github.com/cenkalti/backoff", "PermanentError permanent", blamed, "", nil},
	{"github.com/cenkalti/backoff", "RetryAfterError", tooMany, "", nil},
	{"github.com/cenkalti/backoff", "RetryAfterError", inSeconds, "Duration", nil},
	{"github.com/avast/retry-go", "unrecoverableError", blamed, "", nil},

	// Of the standard library. Names are as exact as types, and do not link crypto/tls and
	// net/http into a program that does not use them: these make up a third of a small program.
	{"crypto/tls", "alert AlertError", inCode, ".", &tlsalertCodes},
	{"crypto/tls", "CertificateVerificationError RecordHeaderError", never, "", nil},
	{"crypto/x509", "UnknownAuthorityError HostnameError CertificateInvalidError", never, "", nil},
	{"encoding/json", "SyntaxError UnmarshalTypeError", blamed, "", nil},
	{"encoding/json", "InvalidUnmarshalError MarshalerError UnsupportedTypeError UnsupportedValueError", never, "", nil},
	{"encoding/xml", "SyntaxError UnmarshalError", blamed, "", nil},
	{"encoding/xml", "TagPathError UnsupportedTypeError", never, "", nil},
	{"internal/poll", "errNetClosing", passing, "", nil}, // net.ErrClosed
	{"net", "AddrError ParseError InvalidAddrError UnknownNetworkError", never, "", nil},
	{"net/http", "MaxBytesError", blamed, "", nil},
	{"os/exec", "Error", never, "", nil},
	{"strconv", "NumError", blamed, "", nil},
}

// rulesFor returns the rules for a type.
func rulesFor(pkg, name string) (found []*rule) {
	pkg = withoutVersions(pkg)
	for i := range rules {
		if r := &rules[i]; oneOf(r.pkg, pkg) && (r.name == "" || oneOf(r.name, name)) {
			found = append(found, r)
		}
	}
	return found
}

// oneOf reports whether word is one of several words with blanks between them.
func oneOf(words, word string) bool {
	for more := true; more; {
		var w string
		if w, words, more = strings.Cut(words, " "); w == word {
			return true
		}
	}
	return false
}

// withoutVersions returns the path of a package without the parts that name a major
// version, such as the v5 in github.com/neo4j/neo4j-go-driver/v5/neo4j/db. There is
// no v1 in such a path, unless it has another meaning.
func withoutVersions(path string) (short string) {
	for more := path != ""; more; {
		var part string
		part, path, more = strings.Cut(path, "/")
		version, ok := strings.CutPrefix(part, "v")
		if !ok || version == "" || version == "1" || strings.Trim(version, "0123456789") != "" {
			short += "/" + part
		}
	}
	return strings.TrimPrefix(short, "/")
}
