package clienterr

import (
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// read reads e as if it were of a type of package pkg that has this name.
func read(e any, pkg, name string) Answer {
	k := resolve(reflect.TypeOf(e), find(pkg, name))
	if k == nil {
		return Answer{}
	}
	if err, ok := e.(error); ok {
		return k.Read(err)
	}
	return k.read(reflect.ValueOf(e))
}

// Errors as the clients have them, but for their methods.
type (
	grpcStatus struct{ s *struct{ Code int32 } }
	grpcError  struct{ s *grpcStatus }
	grpcOld    struct{ e *struct{ Code int32 } }
	coded      struct{ code uint32 }
	connectErr struct {
		code    uint32
		wireErr bool
	}
	twirpErr     struct{ code string }
	temporal     struct{ st *grpcStatus }
	withCode     struct{ Code int }
	withString   struct{ Code string }
	withAny      struct{ Code any }
	withType     struct{ Type string }
	withStatus   struct{ Status int }
	withNumber   struct{ Number int32 }
	withUnsigned struct{ Number uint16 }
	jsError      struct{ apiErr *withCode }
	result       struct{ ResultCode uint16 }
	errorFrame   struct {
		_    struct{ version byte }
		code int
	}
	requestErr struct{ errorFrame }
	kerr       struct {
		Code      int16
		Retriable bool
	}
	kError int16
	kinds  int
)

func grpc(code int32) *grpcError {
	return &grpcError{&grpcStatus{&struct{ Code int32 }{code}}}
}

// numbers has the numbers of words, and of ranges such as 3-5 among them.
func numbers(words string) (all []int) {
	for _, word := range strings.Fields(words) {
		first, last, ok := strings.Cut(word, "-")
		if !ok || first == "" { // a range, or a negative number
			first, last = word, word
		}
		from, err := strconv.ParseInt(first, 0, 32)
		to, err2 := strconv.ParseInt(last, 0, 32)
		if err := errors.Join(err, err2); err != nil {
			panic(err)
		}
		for n := from; n <= to; n++ {
			all = append(all, int(n))
		}
	}
	return all
}

// Every code of every system.
func TestCodes(t *testing.T) {
	const kafka = "github.com/twmb/franz-go/pkg/kerr"
	codeOf := func(n int) any { return &withCode{n} }
	for _, tt := range []struct {
		pkg, name string
		of        func(int) any
		classes   map[Class]string
		rest      Class
		most      int // codes to try beside those of classes
	}{
		{"google.golang.org/grpc/internal/status", "Error", func(n int) any { return grpc(int32(n)) },
			map[Class]string{Unknown: "0", Transient: "14", TimedOut: "4", Throttled: "8"}, Permanent, 16},
		{"google.golang.org/grpc/internal/status", "Error", func(n int) any { return &grpcOld{&struct{ Code int32 }{int32(n)}} },
			map[Class]string{Unknown: "0", Transient: "14", TimedOut: "4", Throttled: "8"}, Permanent, 16},
		{"go.temporal.io/api/serviceerror", "NotFound", func(n int) any { return &temporal{grpc(int32(n)).s} },
			map[Class]string{Unknown: "0", Transient: "14", TimedOut: "4", Throttled: "8"}, Permanent, 16},
		{"go.etcd.io/etcd/api/v3/v3rpc/rpctypes", "EtcdError", func(n int) any { return coded{uint32(n)} },
			map[Class]string{Unknown: "0", Transient: "14", TimedOut: "4", Throttled: "8"}, Permanent, 16},
		{"connectrpc.com/connect", "Error", func(n int) any { return &connectErr{uint32(n), true} },
			map[Class]string{Unknown: "0", Transient: "14", TimedOut: "4", Throttled: "8"}, Permanent, 16},
		{"connectrpc.com/connect", "Error", func(n int) any { return &connectErr{uint32(n), false} },
			map[Class]string{Unknown: "0 1 2 13", Transient: "14", TimedOut: "4", Throttled: "8"}, Permanent, 16},
		{kafka, "Error", func(n int) any { return &kerr{int16(n), false} }, map[Class]string{Unknown: "-1 0", Throttled: "89",
			Transient: "2 3 5-9 13-16 19 20 27 41 51 56 60 70-72 74 75 78 80 83 84 88 100 103 106 133"}, Permanent, 200},
		{kafka, "Error", func(n int) any { return &kerr{int16(n), true} }, map[Class]string{Unknown: "-1 0", Throttled: "89",
			Transient: "2 3 5-9 13-16 19 20 27 41 51 56 60 70-72 74 75 78 80 83 84 88 100 103 106 133 137-200"}, Permanent, 200},
		{"github.com/IBM/sarama", "KError", func(n int) any { return kError(n) }, map[Class]string{Unknown: "-1 0 137-200", Throttled: "89",
			Transient: "2 3 5-9 13-16 19 20 27 41 51 56 60 70-72 74 75 78 80 83 84 88 100 103 106 133"}, Permanent, 200},
		{"github.com/segmentio/kafka-go", "Error", func(n int) any { return kinds(n) }, map[Class]string{Unknown: "-1 0 137-200", Throttled: "89",
			Transient: "2 3 5-9 13-16 19 20 27 41 51 56 60 70-72 74 75 78 80 83 84 88 100 103 106 133"}, Permanent, 200},
		{"github.com/rabbitmq/amqp091-go", "Error", codeOf, map[Class]string{Transient: "313 320 405 501 504 541", Throttled: "506",
			Permanent: "311 312 402 403 404 406 502 503 505 530 540"}, Unknown, 600},
		{"github.com/streadway/amqp", "Error", codeOf, map[Class]string{Transient: "313 320 405 501 504 541", Throttled: "506",
			Permanent: "311 312 402 403 404 406 502 503 505 530 540"}, Unknown, 600},
		{"github.com/microsoft/go-mssqldb", "Error", func(n int) any { return withNumber{int32(n)} }, map[Class]string{
			Transient: "1205 1222 3960 233 4060 4221 40197 40613", Throttled: "701 10928 10929 40501 49918-49920",
			Permanent: "102 156 207 208 229 230 245 515 547 2601 2627 8152 18456"}, Unknown, 2000},
		{"github.com/go-sql-driver/mysql", "MySQLError", func(n int) any { return &withUnsigned{uint16(n)} }, map[Class]string{
			Transient: "1213 1205 1053 1290 1792 1836 3572", Throttled: "1040 1203 1226",
			Permanent: "1062 1064 1146 1451 1452 1044 1045 1048 1049 1054 1136 1142 1406"}, Unknown, 4000},
		{"github.com/gocql/gocql", "RequestErrUnavailable", func(n int) any { return &requestErr{errorFrame{code: n}} }, map[Class]string{
			Transient: "0x0000 0x1000 0x1002 0x1003 0x1100 0x1200 0x1300 0x1500 0x1600 0x1700", Throttled: "0x1001",
			Permanent: "0x000A 0x0100 0x1400 0x2000 0x2100 0x2200 0x2300 0x2400"}, Unknown, 0x2600},
		{"github.com/apache/cassandra-gocql-driver/v2", "errorFrame", func(n int) any { return errorFrame{code: n} }, map[Class]string{
			Transient: "0x0000 0x1000 0x1002 0x1003 0x1100 0x1200 0x1300 0x1500 0x1600 0x1700", Throttled: "0x1001",
			Permanent: "0x000A 0x0100 0x1400 0x2000 0x2100 0x2200 0x2300 0x2400"}, Unknown, 0x2600},
		{"github.com/ClickHouse/clickhouse-go/v2/lib/proto", "Exception", codeOf, map[Class]string{
			Transient: "159 209 210 225 242 285 286 319 999", Throttled: "202 241 252",
			Permanent: "47 53 57 60 62 81 164 192-194 497 516"}, Unknown, 1002},
		{"net/textproto", "Error", codeOf, map[Class]string{Transient: "400-499", Permanent: "500-599"}, Unknown, 700},
		{"github.com/go-ldap/ldap/v3", "Error", func(n int) any { return &result{uint16(n)} }, map[Class]string{
			Transient: "3 51 52 81 85 91 200", Permanent: "32 34 48-50 53 64-71"}, Unknown, 210},
		{"github.com/pkg/sftp", "StatusError", codeOf, map[Class]string{Transient: "6 7", Permanent: "2 3 5 8"}, Unknown, 31},
		{"github.com/gorilla/websocket", "CloseError", codeOf, map[Class]string{Transient: "1001 1006 1011 1012 1014", Throttled: "1013",
			Permanent: "1002 1003 1007-1010 1015"}, Unknown, 5000},
		{"github.com/coder/websocket", "CloseError", codeOf, map[Class]string{Transient: "1001 1006 1011 1012 1014", Throttled: "1013",
			Permanent: "1002 1003 1007-1010 1015"}, Unknown, 5000},
		{"nhooyr.io/websocket", "CloseError", codeOf, map[Class]string{Transient: "1001 1006 1011 1012 1014", Throttled: "1013",
			Permanent: "1002 1003 1007-1010 1015"}, Unknown, 5000},
	} {
		want := map[int]Class{}
		for n := range tt.most + 1 {
			want[n] = tt.rest
		}
		for class, words := range tt.classes {
			for _, n := range numbers(words) {
				want[n] = class
			}
		}
		for n, class := range want {
			if got := read(tt.of(n), tt.pkg, tt.name); got != (Answer{Class: class}) {
				t.Errorf("%s.%s %d: %v, want class %d", tt.pkg, tt.name, n, got, class)
			}
		}
	}
}

type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

// mongoErr is an error of MongoDB's driver that has labels and codes.
type mongoErr struct {
	labels string
	codes  []int
}

func (mongoErr) Error() string { return "mongo" }
func (e mongoErr) HasErrorLabel(label string) bool {
	return strings.Contains(e.labels, label)
}
func (e mongoErr) HasErrorCode(code int) bool {
	for _, c := range e.codes {
		if c == code {
			return true
		}
	}
	return false
}

type redigoError string

func (e redigoError) Error() string { return string(e) }

// Every word of every system.
func TestWords(t *testing.T) {
	for _, tt := range []struct {
		pkg, name string
		of        func(string) any
		classes   map[Class]string
	}{
		{"", "", func(s string) any { return redisError(s + " and more") }, map[Class]string{
			Transient: "LOADING READONLY CLUSTERDOWN TRYAGAIN MASTERDOWN NOREPLICAS BUSY MOVED ASK MISCONF IOERR INPROG",
			Throttled: "OOM",
			Permanent: "WRONGTYPE NOAUTH WRONGPASS NOPERM NOSCRIPT CROSSSLOT BUSYGROUP BUSYKEY NOGROUP NOPROTO DENIED NOTBUSY UNKILLABLE",
			Unknown:   "ERR EXECABORT BUS BUSYGROUPS LOADIN OADING redis: redis:nil"}},
		{"github.com/gomodule/redigo/redis", "Error", func(s string) any { return redigoError(s) },
			map[Class]string{Transient: "LOADING", Throttled: "OOM", Permanent: "WRONGTYPE", Unknown: "ERR"}},
		{"github.com/redis/rueidis", "RedisError", func(s string) any { return redigoError(s) }, map[Class]string{Transient: "LOADING"}},
		{"github.com/valkey-io/valkey-go", "ValkeyError", func(s string) any { return redigoError(s) }, map[Class]string{Transient: "LOADING"}},
		{"example.com/redis", "Error", func(s string) any { return &struct{ redigoError }{redigoError(s)} }, nil},
		{"github.com/twitchtv/twirp", "twerr", func(s string) any { return &twirpErr{s} }, map[Class]string{
			Transient: "unavailable", TimedOut: "deadline_exceeded", Throttled: "resource_exhausted",
			Permanent: "canceled unknown invalid_argument malformed not_found bad_route already_exists permission_denied " +
				"unauthenticated failed_precondition aborted out_of_range unimplemented internal data_loss"}},
		{"github.com/minio/minio-go/v7", "ErrorResponse", func(s string) any { return withString{s} }, map[Class]string{
			Throttled: "Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException " +
				"TooManyRequestsException ProvisionedThroughputExceededException RequestLimitExceeded SlowDown " +
				"BandwidthLimitExceeded EC2ThrottledException",
			Transient: "RequestTimeout RequestTimeoutException TransactionInProgressException PriorRequestNotComplete",
			Unknown:   "NoSuchKey Slow SlowDowns"}},
		{"github.com/prometheus/client_golang/api/prometheus/v1", "Error", func(s string) any { return &withType{s} }, map[Class]string{
			Transient: "timeout server_error", Permanent: "bad_data execution", Unknown: "client_error canceled bad_response"}},
		{"github.com/openai/openai-go/v3/internal/apierror", "Error", func(s string) any { return &withString{s} },
			map[Class]string{Permanent: "insufficient_quota", Unknown: "rate_limit_exceeded"}},
		{"github.com/sashabaranov/go-openai", "APIError", func(s string) any { return &withAny{s} },
			map[Class]string{Permanent: "insufficient_quota", Unknown: "rate_limit_exceeded"}},
		{"github.com/neo4j/neo4j-go-driver/v5/neo4j/db", "Neo4jError", func(s string) any { return &withString{s} }, map[Class]string{
			Transient: "Neo.TransientError.Transaction.DeadlockDetected Neo.TransientError.General.OutOfMemoryError",
			Permanent: "Neo.ClientError.Statement.SyntaxError Neo.ClientError.Security.Unauthorized",
			Unknown: "Neo.TransientError.Transaction.Terminated Neo.TransientError.Transaction.LockClientStopped " +
				"Neo.ClientError.Cluster.NotALeader Neo.ClientError.General.ForbiddenOnReadOnlyDatabase " +
				"Neo.ClientError.Security.AuthorizationExpired Neo.DatabaseError.General.UnknownError"}},
	} {
		for class, words := range tt.classes {
			for _, word := range append(strings.Fields(words), "") {
				want := class
				if word == "" {
					want = Unknown
				}
				if got := read(tt.of(word), tt.pkg, tt.name); got != (Answer{Class: want}) {
					t.Errorf("%s.%s %q: %v, want class %d", tt.pkg, tt.name, word, got, want)
				}
			}
		}
	}
	for text, want := range map[string]Class{"redis: nil": Permanent, "redis nil message": Permanent, "valkey nil message": Permanent,
		"redis: nil, or not": Unknown, "ERR max number of clients reached": Throttled, "ERR max number of clients": Unknown, "LOADING": Transient} {
		if got := read(redisError(text), "", ""); got != (Answer{Class: want}) {
			t.Errorf("%q: %v, want class %d", text, got, want)
		}
	}
	if Of(reflect.TypeFor[redigoError]()) != nil {
		t.Error("a string that is no error of Redis is read")
	}
}

func TestMongo(t *testing.T) {
	transient := numbers("6 7 50 89 91 112 134 189 262 9001 10107 11600 11602 13435 13436")
	permanent := numbers("2 9 11 13 14 18 20 26 40 48 59 66 67 68 72 73 85 86 115 121 11000 11001 12582")
	check := func(e mongoErr, want Class) {
		t.Helper()
		if got := read(e, "go.mongodb.org/mongo-driver/v2/mongo", "CommandError"); got != (Answer{Class: want}) {
			t.Errorf("%+v: %v, want class %d", e, got, want)
		}
	}
	check(mongoErr{}, Unknown)
	check(mongoErr{codes: []int{43}}, Unknown)
	for _, code := range transient {
		check(mongoErr{codes: []int{43, code}}, Transient)
	}
	for _, code := range permanent {
		check(mongoErr{codes: []int{code}}, Permanent)
		check(mongoErr{codes: []int{code, 91}}, Transient)
		check(mongoErr{"NetworkError", []int{code}}, Transient)
	}
	for _, label := range []string{"RetryableWriteError", "TransientTransactionError", "RetryableError", "NetworkError"} {
		check(mongoErr{label, nil}, Transient)
		check(mongoErr{label + " SystemOverloadedError", nil}, Throttled)
	}
	check(mongoErr{"UnknownTransactionCommitResult", nil}, Unknown)
}

func TestStatuses(t *testing.T) {
	for _, tt := range []struct {
		pkg, name string
		of        func(int) any
	}{
		{"google.golang.org/api/googleapi", "Error", func(n int) any { return &withCode{n} }},
		{"google.golang.org/genai", "APIError", func(n int) any { return withCode{n} }},
		{"github.com/hashicorp/consul/api", "StatusError", func(n int) any { return withCode{n} }},
		{"github.com/nats-io/nats.go", "APIError", func(n int) any { return &withCode{n} }},
		{"github.com/nats-io/nats.go", "jsError", func(n int) any { return &jsError{&withCode{n}} }},
		{"github.com/nats-io/nats.go/jetstream", "APIError", func(n int) any { return &withCode{n} }},
		{"github.com/nats-io/nats.go/jetstream", "jsError", func(n int) any { return &jsError{&withCode{n}} }},
		{"github.com/elastic/go-elasticsearch/v9/typedapi/types", "ElasticsearchError", func(n int) any { return &withStatus{n} }},
		{"github.com/opensearch-project/opensearch-go/v4", "StructError", func(n int) any { return &withStatus{n} }},
		{"github.com/opensearch-project/opensearch-go/v3/opensearchapi", "Error", func(n int) any { return &withStatus{n} }},
		{"github.com/olivere/elastic/v7", "Error", func(n int) any { return &withStatus{n} }},
		{"github.com/twilio/twilio-go/client", "TwilioRestError", func(n int) any { return &withStatus{n} }},
		{"github.com/slack-go/slack", "StatusCodeError", func(n int) any { return withCode{n} }},
		{"github.com/containerd/errdefs/pkg/internal/cause", "ErrUnexpectedStatus", func(n int) any { return withStatus{n} }},
	} {
		for _, n := range []int{0, 200, 399, 400, 404, 429, 503, 599, 600} {
			want := Answer{Status: n}
			if n < 400 || n > 599 {
				want = Answer{}
			}
			if got := read(tt.of(n), tt.pkg, tt.name); got != want {
				t.Errorf("%s.%s %d: %v, want %v", tt.pkg, tt.name, n, got, want)
			}
		}
	}
}

// Docker's errors hold another one, which says what they are by a method or a status.
type (
	notFound    struct{}
	unavailable struct{}
	unknown     struct{}
	cause       struct{ StatusCode int }
	dockerError struct{ err, errdef error }
)

func (notFound) Error() string    { return "not found" }
func (notFound) NotFound()        { panic("called") }
func (unavailable) Error() string { return "unavailable" }
func (unavailable) Unavailable()  {}
func (unknown) Error() string     { return "unknown" }
func (cause) Error() string       { return "cause" }

func TestDocker(t *testing.T) {
	for _, pkg := range []string{"github.com/docker/docker/client", "github.com/moby/moby/client"} {
		for _, tt := range []struct {
			errdef error
			want   Answer
		}{
			{notFound{}, Answer{Class: Permanent}}, {unavailable{}, Answer{Class: Transient}}, {unknown{}, Answer{}}, {nil, Answer{}},
			{&cause{504}, Answer{Status: 504}}, {(*cause)(nil), Answer{}},
		} {
			if got := read(&dockerError{errors.New("x"), tt.errdef}, pkg, "httpError"); got != tt.want {
				t.Errorf("%s: %v: %v, want %v", pkg, tt.errdef, got, tt.want)
			}
		}
	}
}

// Errors that are read in more than one place.
func TestSpecial(t *testing.T) {
	type (
		limited  struct{ RetryAfter time.Duration }
		embedded struct{ *limited }
		stamp    struct{ time.Time }
		rate     struct{ Reset stamp }
		github   struct {
			Rate     rate
			Response *http.Response
		}
		abuse struct {
			Response   *http.Response
			RetryAfter *time.Duration
		}
		last   struct{ Header http.Header }
		stripe struct {
			LastResponse   *last
			HTTPStatusCode int
		}
		openai struct {
			Code       string
			StatusCode int
		}
		minio   openai
		details struct{ RetryAfterSeconds int32 }
		status  struct {
			Reason  string
			Code    int32
			Details *details
		}
		kubernetes struct{ ErrStatus status }
	)
	second := time.Second
	words := func(word string) *last {
		return &last{http.Header{"Stripe-Should-Retry": {word}, "Retry-After": {"3"}}}
	}
	const hub, stripes, k8s = "github.com/google/go-github/v72/github", "github.com/stripe/stripe-go/v83", "k8s.io/apimachinery/pkg/api/errors"
	for _, tt := range []struct {
		pkg, name string
		e         any
		want      Answer
	}{
		{"github.com/slack-go/slack", "RateLimitedError", &limited{second}, Answer{Status: 429, Hint: second}},
		{"github.com/bwmarrin/discordgo", "RateLimitError", &embedded{&limited{second}}, Answer{Status: 429, Hint: second}},
		{"github.com/bwmarrin/discordgo", "RateLimitError", &embedded{}, Answer{Status: 429}},
		{hub, "RateLimitError", &github{Response: &http.Response{StatusCode: 403, Header: http.Header{"X-Ratelimit-Remaining": {"0"},
			"X-Ratelimit-Reset": {"7"}}}}, Answer{Status: 429, Hint: 7 * second, Timed: true}},
		{hub, "RateLimitError", &github{}, Answer{Status: 429}},
		{hub, "AbuseRateLimitError", &abuse{&http.Response{StatusCode: 403}, &second}, Answer{Status: 429, Hint: second}},
		{hub, "AbuseRateLimitError", &abuse{&http.Response{StatusCode: 403}, nil}, Answer{Status: 429}},
		{stripes, "Error", &stripe{words("false"), 500}, Answer{Class: Permanent, Status: 500, Hint: 3 * second, Timed: true}},
		{stripes, "Error", &stripe{words("true"), 409}, Answer{Class: Transient, Status: 409, Hint: 3 * second, Timed: true}},
		{stripes, "Error", &stripe{words("true"), 429}, Answer{Status: 429, Hint: 3 * second, Timed: true}},
		{stripes, "Error", &stripe{words("maybe"), 409}, Answer{Status: 409, Hint: 3 * second, Timed: true}},
		{stripes, "Error", &stripe{nil, 409}, Answer{Status: 409}},
		{"github.com/openai/openai-go/v3/internal/apierror", "Error", &openai{"insufficient_quota", 429}, Answer{Class: Permanent, Status: 429}},
		{"github.com/openai/openai-go/v3/internal/apierror", "Error", &openai{"", 503}, Answer{Status: 503}},
		{"github.com/minio/minio-go/v7", "ErrorResponse", minio{"SlowDown", 503}, Answer{Class: Throttled, Status: 503}},
		{"github.com/minio/minio-go/v7", "ErrorResponse", minio{"NoSuchKey", 404}, Answer{Status: 404}},
		{k8s, "StatusError", &kubernetes{status{"Conflict", 409, nil}}, Answer{Class: Transient, Status: 409}},
		{k8s, "StatusError", &kubernetes{status{"AlreadyExists", 409, nil}}, Answer{Class: Permanent, Status: 409}},
		{k8s, "StatusError", &kubernetes{status{"TooManyRequests", 429, &details{2}}}, Answer{Status: 429, Hint: 2 * second}},
		{k8s, "StatusError", &kubernetes{status{"NotFound", 404, &details{}}}, Answer{Status: 404}},
	} {
		if got := read(tt.e, tt.pkg, tt.name); got != tt.want {
			t.Errorf("%s.%s: %v, want %v", tt.pkg, tt.name, got, tt.want)
		}
	}
	if got := read(&github{Rate: rate{stamp{time.Now().Add(time.Hour)}}}, hub, "RateLimitError"); got.Hint < 59*time.Minute || got.Hint > time.Hour {
		t.Errorf("a reset in an hour: %v", got.Hint)
	}
	if got := read(&github{Rate: rate{stamp{time.Now().Add(-time.Hour)}}}, hub, "RateLimitError"); got.Hint != 0 {
		t.Errorf("a reset an hour ago: %v", got.Hint)
	}
}

// A rule is for a type of a package, and says nothing if the fields have moved.
func TestRulesApplyToTheirTypesAlone(t *testing.T) {
	for _, tt := range []struct{ pkg, name string }{
		{"google.golang.org/grpc/status", "Error"}, {"example.com/internal/status", "Error"}, {"google.golang.org/grpc/internal/status", "Err"},
		{"", "Error"}, {"main", "MySQLError"}, {"github.com/go-sql-driver/mysql/mysql", "MySQLError"},
	} {
		if r := find(tt.pkg, tt.name); r != nil {
			t.Errorf("%s.%s has the rule %v", tt.pkg, tt.name, *r)
		}
	}
	if k := resolve(reflect.TypeFor[*withCode](), find("github.com/go-sql-driver/mysql", "MySQLError")); k != nil {
		t.Errorf("without the field Number: %+v", k)
	}
	if got := read(&cause{503}, "google.golang.org/api/googleapi", "Error"); got != (Answer{Status: 503}) {
		t.Errorf("without the field Code, but with StatusCode: %v", got)
	}
	for _, e := range []any{&grpcError{}, &grpcError{&grpcStatus{}}, &temporal{}} { // made by others than a server
		if got := read(e, "go.temporal.io/api/serviceerror", "Unavailable"); got != (Answer{}) {
			t.Errorf("%#v: %v", e, got)
		}
	}
}

func TestWithoutVersions(t *testing.T) {
	for path, want := range map[string]string{
		"":                            "",
		"a/b":                         "a/b",
		"a/v2":                        "a",
		"a/v83/b":                     "a/b",
		"a/v2/v3/b":                   "a/b",
		"a/v1/b":                      "a/v1/b",
		"a/v2x/b":                     "a/v2x/b",
		"a/v/b":                       "a/v/b",
		"a/version":                   "a/version",
		"go.etcd.io/x/v3/v3rpc/types": "go.etcd.io/x/v3rpc/types",
	} {
		if got := withoutVersions(path); got != want {
			t.Errorf("withoutVersions(%q) = %q, want %q", path, got, want)
		}
	}
}
