package clients_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/ClickHouse/ch-go"
	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/IBM/sarama"
	alibaba "github.com/alibabacloud-go/darabonba-openapi/v2/client"
	cassandra "github.com/apache/cassandra-gocql-driver/v2"
	avast "github.com/avast/retry-go/v4"
	"github.com/aws/smithy-go"
	"github.com/bwmarrin/discordgo"
	backoff4 "github.com/cenkalti/backoff/v4"
	backoff5 "github.com/cenkalti/backoff/v5"
	backoff7 "github.com/cenkalti/backoff/v7"
	coder "github.com/coder/websocket"
	"github.com/elastic/go-elasticsearch/v9/typedapi/types"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-ldap/ldap/v3"
	"github.com/go-sql-driver/mysql"
	"github.com/gocql/gocql"
	"github.com/gomodule/redigo/redis"
	"github.com/google/go-github/v72/github"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gorilla/websocket"
	consul "github.com/hashicorp/consul/api"
	influxhttp "github.com/influxdata/influxdb-client-go/v2/api/http"
	mssql "github.com/microsoft/go-mssqldb"
	graph "github.com/microsoft/kiota-abstractions-go"
	"github.com/minio/minio-go/v7"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/db"
	"github.com/olivere/elastic/v7"
	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/pkg/sftp"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/segmentio/kafka-go"
	"github.com/twitchtv/twirp"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/goretry/retry"
)

const (
	unknown, permanent, transient = retry.Unknown, retry.Permanent, retry.Transient
	timedOut, throttled           = retry.TimedOut, retry.Throttled
)

func byGoogle(code int, reasons ...string) error {
	e := &googleapi.Error{Code: code}
	for _, reason := range reasons {
		e.Errors = append(e.Errors, googleapi.ErrorItem{Reason: reason})
	}
	return e
}

func byOAuth(code int, word string) error {
	return &oauth2.RetrieveError{Response: &http.Response{StatusCode: code, Header: http.Header{"Retry-After": {"7"}}}, ErrorCode: word}
}

// byGraph is the base of each error of Microsoft Graph's SDK, and of any client that kiota has
// generated.
func byGraph(code int, after string) error {
	e := graph.NewApiError()
	e.SetStatusCode(code)
	if after != "" {
		e.ResponseHeaders.Add("Retry-After", after)
	}
	return e
}

// git returns go-git's error for a status.
func byGit(code int) error {
	return githttp.NewErr(&http.Response{StatusCode: code, Request: &http.Request{URL: &url.URL{}}, Body: http.NoBody})
}

// The types of errors that DefaultClassifier knows by name have the fields by which it
// knows them.
func TestTypes(t *testing.T) {
	second, badRequest, throttling, afterMs := time.Second, 400, "Throttling.User", int64(2000)
	limited := &http.Response{StatusCode: 403, Header: http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1"}}}
	for i, tt := range []struct {
		err  error
		want retry.Class
		hint time.Duration
	}{
		{connect.NewError(connect.CodeUnavailable, errors.New("x")), transient, 0},
		{connect.NewError(connect.CodeNotFound, errors.New("x")), permanent, 0},
		{connect.NewError(connect.CodeInternal, errors.New("x")), unknown, 0}, // not the server's
		{connect.NewWireError(connect.CodeInternal, errors.New("x")), permanent, 0},
		{consul.StatusError{Code: 404}, permanent, 0},
		{&nats.APIError{Code: 503}, transient, 0},
		{nats.ErrStreamNotFound, permanent, 0},
		{&jetstream.APIError{Code: 404}, permanent, 0},
		{jetstream.ErrStreamNotFound, permanent, 0},
		{&types.ElasticsearchError{Status: 409}, permanent, 0},
		{&opensearch.StructError{Status: 503}, transient, 0},
		{opensearch.StringError{Status: 404}, permanent, 0},
		{&elastic.Error{Status: 429}, throttled, 0},
		{&discordgo.RateLimitError{RateLimit: &discordgo.RateLimit{TooManyRequests: &discordgo.TooManyRequests{RetryAfter: second}}}, throttled, second},
		{&github.RateLimitError{Response: limited}, throttled, second},
		{&github.AbuseRateLimitError{Response: &http.Response{StatusCode: 403}, RetryAfter: &second}, throttled, second},
		{&github.ErrorResponse{Response: &http.Response{StatusCode: 404}}, permanent, 0},
		{&alibaba.ThrottlingError{StatusCode: &badRequest, Code: &throttling, RetryAfter: &afterMs}, throttled, 2 * second}, // of milliseconds
		{&influxhttp.Error{StatusCode: 429, RetryAfter: 2}, throttled, 2 * second},
		{byGoogle(403, "rateLimitExceeded"), throttled, 0},
		{byGoogle(403, "userRateLimitExceeded"), throttled, 0},
		{fmt.Errorf("list: %w", byGoogle(403, "rateLimitExceeded")), throttled, 0},
		{byGoogle(403, "dailyLimitExceeded"), permanent, 0},
		{byGoogle(403, "quotaExceeded"), permanent, 0},
		{byGoogle(403, "insufficientPermissions"), permanent, 0},
		{byGoogle(403), permanent, 0},
		{byGoogle(503), transient, 0},
		{byOAuth(400, "invalid_grant"), permanent, 7 * second},
		{&url.Error{Op: "Get", Err: byOAuth(400, "invalid_grant")}, permanent, 7 * second},
		{&url.Error{Op: "Get", Err: byOAuth(200, "invalid_scope")}, permanent, 0},
		{&url.Error{Op: "Get", Err: byOAuth(503, "")}, transient, 7 * second},
		{&url.Error{Op: "Get", Err: byOAuth(429, "")}, throttled, 7 * second},
		{byOAuth(400, "slow_down"), throttled, 7 * second},
		{byOAuth(400, "authorization_pending"), transient, 7 * second},
		{&quic.IdleTimeoutError{}, timedOut, 0},
		{&url.Error{Op: "Get", Err: &quic.IdleTimeoutError{}}, timedOut, 0},
		{&quic.HandshakeTimeoutError{}, timedOut, 0},
		{&quic.VersionNegotiationError{}, permanent, 0},
		{&quic.TransportError{ErrorCode: 0x100 + 120, Remote: true}, permanent, 0}, // no_application_protocol
		{&url.Error{Op: "Get", Err: &quic.TransportError{ErrorCode: 0x100 + 48}}, permanent, 0},
		{&quic.TransportError{ErrorCode: 0x100 + 80}, transient, 0},
		{&quic.TransportError{ErrorCode: quic.InternalError}, transient, 0},
		{&quic.StatelessResetError{}, transient, 0},
		{&http3.Error{ErrorCode: http3.ErrCodeRequestRejected, Remote: true}, transient, 0},
		{&http3.Error{ErrorCode: http3.ErrCodeExcessiveLoad, Remote: true}, throttled, 0},
		{&http3.Error{ErrorCode: http3.ErrCodeVersionFallback, Remote: true}, permanent, 0},
		{byGit(401), permanent, 0},
		{byGit(403), permanent, 0},
		{byGit(404), permanent, 0},
		{byGit(429), throttled, 0},
		{byGit(503), transient, 0},
		{kafka.WriteErrors{nil, kafka.MessageSizeTooLarge}, permanent, 0},
		{kafka.WriteErrors{kafka.LeaderNotAvailable, nil}, transient, 0},
		{&smithy.OperationError{Err: &smithy.GenericAPIError{Code: "OperationAborted"}}, transient, 0},
		{&smithy.GenericAPIError{Code: "IDPCommunicationError"}, transient, 0},
		{&smithy.GenericAPIError{Code: "ModelStreamErrorException"}, transient, 0},
		{&smithy.GenericAPIError{Code: "ConcurrentModification"}, transient, 0},
		{redis.Error("ERR max number of clients reached"), throttled, 0},
		{redis.Error("ERR max number of clients + cluster connections reached"), throttled, 0},
		{minio.ErrorResponse{Code: "SlowDown", StatusCode: 503}, throttled, 0},
		{minio.ErrorResponse{Code: "NoSuchKey", StatusCode: 404}, permanent, 0},
		{&prometheus.Error{Type: prometheus.ErrServer}, transient, 0},
		{&prometheus.Error{Type: prometheus.ErrBadData}, permanent, 0},
		{&prometheus.Error{Type: prometheus.ErrClient}, unknown, 0},
		{sarama.ErrNotLeaderForPartition, transient, 0},
		{sarama.ErrMessageSizeTooLarge, permanent, 0},
		{kerr.NotLeaderForPartition, transient, 0},
		{kerr.TopicAuthorizationFailed, permanent, 0},
		{kerr.ThrottlingQuotaExceeded, throttled, 0},
		{kafka.LeaderNotAvailable, transient, 0},
		{kafka.MessageSizeTooLarge, permanent, 0},
		{status.Error(codes.Unavailable, "x"), transient, 0},
		{status.Error(codes.DeadlineExceeded, "x"), timedOut, 0},
		{status.Error(codes.ResourceExhausted, "x"), throttled, 0},
		{status.Error(codes.NotFound, "x"), permanent, 0},
		{twirp.NewError(twirp.Unavailable, "x"), transient, 0},
		{twirp.NewError(twirp.ResourceExhausted, "x"), throttled, 0},
		{twirp.NewError(twirp.NotFound, "x"), permanent, 0},
		{&amqp.Error{Code: amqp.ConnectionForced}, transient, 0},
		{&amqp.Error{Code: amqp.NotFound}, permanent, 0},
		{redis.Error("LOADING Redis is loading the dataset in memory"), transient, 0},
		{redis.Error("WRONGTYPE Operation against a key"), permanent, 0},
		{redis.ErrNil, permanent, 0},
		{mssql.Error{Number: 1205}, transient, 0},
		{mssql.Error{Number: 2627}, permanent, 0},
		{&mysql.MySQLError{Number: 1213}, transient, 0},
		{&mysql.MySQLError{Number: 1062}, permanent, 0},
		{&gocql.RequestErrReadTimeout{}, transient, 0}, // its code cannot be set: 0 is a server's error
		{&cassandra.RequestErrUnavailable{}, transient, 0},
		{gocql.ErrNotFound, unknown, 0},
		{&clickhouse.Exception{Code: 252}, throttled, 0},
		{&ch.Exception{Code: chproto.ErrUnknownTable}, permanent, 0},
		{&db.Neo4jError{Code: "Neo.TransientError.Transaction.DeadlockDetected"}, transient, 0},
		{&db.Neo4jError{Code: "Neo.ClientError.Statement.SyntaxError"}, permanent, 0},
		{ldap.NewError(ldap.LDAPResultBusy, errors.New("x")), transient, 0},
		{ldap.NewError(ldap.LDAPResultInvalidCredentials, errors.New("x")), permanent, 0},
		{&sftp.StatusError{Code: 7}, transient, 0},
		{&sftp.StatusError{Code: 2}, permanent, 0},
		{&websocket.CloseError{Code: websocket.CloseTryAgainLater}, throttled, 0},
		{coder.CloseError{Code: coder.StatusPolicyViolation}, permanent, 0},
		{backoff4.Permanent(status.Error(codes.Unavailable, "x")), permanent, 0},
		{backoff5.Permanent(errors.New("x")), permanent, 0},
		{backoff7.Permanent(fmt.Errorf("x: %w", io.ErrUnexpectedEOF)), permanent, 0},
		{&backoff7.RetryError{LastErr: errors.New("x"), Cause: backoff7.ErrPermanent}, permanent, 0},
		{&backoff7.RetryError{LastErr: status.Error(codes.Unavailable, "x"), Cause: backoff7.ErrExhausted}, transient, 0},
		{backoff5.RetryAfter(7), throttled, 7 * second},
		{backoff7.RetryAfter(7*second, errors.New("x")), throttled, 7 * second},
		{fmt.Errorf("x: %w", avast.Unrecoverable(status.Error(codes.Unavailable, "x"))), permanent, 0},
		{utilerrors.NewAggregate([]error{errors.New("x"), apierrors.NewNotFound(schema.GroupResource{}, "x")}), permanent, 0},
		{utilerrors.NewAggregate([]error{errors.New("x"), apierrors.NewTooManyRequests("x", 7)}), throttled, 7 * second},
		{byGraph(404, ""), permanent, 0},
		{byGraph(429, "7"), throttled, 7 * second},
		{byGraph(503, "7"), transient, 7 * second},
		{&graph.ApiError{ResponseStatusCode: 429}, throttled, 0},
		{gophercloud.ErrUnexpectedResponseCode{Expected: []int{200}, Actual: 404}, permanent, 0},
		{gophercloud.ErrUnexpectedResponseCode{Actual: 429, ResponseHeader: http.Header{"Retry-After": {"7"}}}, throttled, 7 * second},
	} {
		c := retry.DefaultClassifier(tt.err)
		if c != tt.want {
			t.Errorf("%d: %T(%+v) is %v, want %v", i, tt.err, tt.err, c, tt.want)
		}
		if hint := (retry.Policy{}).Judge(tt.err).Hint; hint != tt.hint {
			t.Errorf("%d: %T asks to wait for %v, want %v", i, tt.err, hint, tt.hint)
		}
	}
}
