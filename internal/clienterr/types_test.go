package clienterr

import (
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry/internal/clienterr/oracle"
)

// read reads e as if it were of a type of package pkg that has this name.
func read(e any, pkg, name string) Answer {
	k := resolve(reflect.TypeOf(e), rulesFor(pkg, name))
	if k == nil {
		return Answer{}
	}
	if err, ok := e.(error); ok {
		return k.Read(err, true)
	}
	return k.read(reflect.ValueOf(e))
}

// Errors as the clients have them, but for their methods.
type (
	grpcStatus struct{ s *struct{ Code int32 } }
	grpcError  struct{ s *grpcStatus }
	grpcOld    struct{ e *struct{ Code int32 } }
	byEtcd     struct {
		code uint32
		desc string
	}
	byNATS struct {
		Code      int
		ErrorCode uint16
	}
	connectErr struct {
		code    uint32
		wireErr bool
	}
	twirpErr   struct{ code string }
	temporal   struct{ st *grpcStatus }
	withCode   struct{ Code int }
	withString struct{ Code string }
	withAny    struct{ Code any }
	withType   struct{ Type string }
	withStatus struct{ Status int }
	withNumber struct {
		Number int32
		Class  uint8
	}
	withUnsigned struct {
		Number   uint16
		SQLState [5]byte
	}
	jsError    struct{ apiErr *byNATS }
	limitedBy  struct{ RetryAfter int }
	parameters struct {
		withCode
		limitedBy
	}
	shopify struct {
		withStatus
		RetryAfter int
	}
	result     struct{ ResultCode uint16 }
	errorFrame struct {
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

func grpcErr(code int32) *grpcError {
	return &grpcError{&grpcStatus{&struct{ Code int32 }{code}}}
}

// Every code of every table, by the errors of every type that has it.
func TestCodes(t *testing.T) {
	codeOf := func(n int64) any { return &withCode{int(n)} }
	for _, tt := range []struct {
		pkg, name string
		of        func(int64) any
		table     string
	}{
		{"google.golang.org/grpc/internal/status", "Error", func(n int64) any { return grpcErr(int32(n)) }, "grpc"},
		{"google.golang.org/grpc/internal/status", "Error", func(n int64) any { return &grpcOld{&struct{ Code int32 }{int32(n)}} }, "grpc"},
		{"go.temporal.io/api/serviceerror", "NotFound", func(n int64) any { return &temporal{grpcErr(int32(n)).s} }, "temporal"},
		{"go.etcd.io/etcd/api/v3/v3rpc/rpctypes", "EtcdError", func(n int64) any { return byEtcd{uint32(n), ""} }, "grpc"},
		{"connectrpc.com/connect", "Error", func(n int64) any { return &connectErr{uint32(n), true} }, "grpc"},
		{"github.com/twmb/franz-go/pkg/kerr", "Error", func(n int64) any { return &kerr{int16(n), false} }, "kafka"},
		{"github.com/IBM/sarama", "KError", func(n int64) any { return kError(n) }, "kafka"},
		{"github.com/segmentio/kafka-go", "Error", func(n int64) any { return kinds(n) }, "kafka"},
		{"github.com/rabbitmq/amqp091-go", "Error", codeOf, "amqp091"},
		{"github.com/streadway/amqp", "Error", codeOf, "amqp091"},
		{"github.com/microsoft/go-mssqldb", "Error", func(n int64) any { return withNumber{int32(n), 0} }, "mssql"},
		{"github.com/go-sql-driver/mysql", "MySQLError", func(n int64) any { return &withUnsigned{Number: uint16(n)} }, "mysql"},
		{"github.com/gocql/gocql", "RequestErrUnavailable", func(n int64) any { return &requestErr{errorFrame{code: int(n)}} }, "cassandra"},
		{"github.com/apache/cassandra-gocql-driver/v2", "errorFrame", func(n int64) any { return errorFrame{code: int(n)} }, "cassandra"},
		{"github.com/ClickHouse/clickhouse-go/v2/lib/proto", "Exception", codeOf, "clickhouse"},
		{"net/textproto", "Error", codeOf, "reply"},
		{"github.com/go-ldap/ldap/v3", "Error", func(n int64) any { return &result{uint16(n)} }, "ldap"},
		{"github.com/pkg/sftp", "StatusError", codeOf, "sftp"},
		{"github.com/gorilla/websocket", "CloseError", codeOf, "websocket"},
		{"github.com/coder/websocket", "CloseError", codeOf, "websocket"},
		{"nhooyr.io/websocket", "CloseError", codeOf, "websocket"},
		{"github.com/nats-io/nats.go", "APIError", func(n int64) any { return &byNATS{0, uint16(n)} }, "nats"},
		{"github.com/nats-io/nats.go/jetstream", "jsError", func(n int64) any { return &jsError{&byNATS{0, uint16(n)}} }, "nats"},
		{"modernc.org/sqlite", "Error", func(n int64) any { return &struct{ code int }{int(n)} }, "sqlite"},
		{"github.com/duckdb/duckdb-go/v2", "Error", func(n int64) any { return &struct{ Type uint32 }{uint32(n)} }, "duckdb"},
		{"github.com/snowflakedb/gosnowflake", "SnowflakeError", func(n int64) any {
			return &struct {
				Number   int
				SQLState string
			}{int(n), ""}
		}, "snowflake"},
		{"github.com/godror/godror", "OraErr", func(n int64) any { return &struct{ code, offset int }{int(n), 0} }, "oracle"},
		{"github.com/SAP/go-hdb/driver/internal/protocol", "HdbError", func(n int64) any { return &struct{ errorCode int32 }{int32(n)} }, "hana"},
		{"github.com/ydb-platform/ydb-go-sdk/v3/internal/xerrors", "operationError", func(n int64) any { return &struct{ code int32 }{int32(n)} }, "ydb"},
	} {
		table, checked := tableOf(tt.table), 0
		for _, row := range rowsOf(t, tt.table) {
			if from, to, ok := row.Numbers(); ok && from == to {
				checked++
				if got, want := read(tt.of(int64(from)), tt.pkg, tt.name), (Answer{Facts: table.number(int64(from))}); got != want {
					t.Errorf("%s.%s %d: %v, want %v", tt.pkg, tt.name, from, got, want)
				}
			}
		}
		if checked == 0 {
			t.Errorf("%s has no codes", tt.table)
		}
	}
}

// What is in the tables is what their rows say.
func TestTables(t *testing.T) {
	all, err := oracle.Tables()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range all {
		table := tableOf(part.Vendor())
		if table == nil {
			continue // for tests alone
		}
		for _, row := range part.Rows {
			f, err := row.Facts()
			if err != nil {
				t.Fatal(err)
			}
			want := Facts(slices.Index(oracle.Classes, f.Class))
			for fact, is := range map[Facts]bool{Renewed: f.Session, Blames: f.Message, RolledBack: f.RolledBack, Demoted: f.Demoted} {
				if is {
					want |= fact
				}
			}
			var got Facts
			if from, _, ok := row.Numbers(); ok && len(table.steps) > 0 {
				got = table.number(int64(from))
				if row.Pattern() {
					continue // an exact row may be the first
				}
			} else {
				if part.Name == "texts" && Text(row.Code) != want {
					t.Errorf("the text %q is %b, want %b", row.Code, Text(row.Code), want)
				}
				got = table.word("", strings.TrimSuffix(row.Code, "*"))
				if row.Pattern() && got == 0 {
					continue // likewise
				}
			}
			if got != want && !(got == 0 && part.Under != "") {
				t.Errorf("%s: %s is %b, want %b", part.Name, row.Code, got, want)
			}
		}
	}
}

func rowsOf(t *testing.T, name string) (rows []oracle.Row) {
	t.Helper()
	all, err := oracle.Tables()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range all {
		if part.Vendor() == name {
			rows = append(rows, part.Rows...)
		}
	}
	return rows
}

func TestTable(t *testing.T) {
	ranges := table{steps: []int32{-3, -2, 10, 20, 21}, facts: "\x01\x00\x02\x04\x00"}
	for n, want := range map[int64]Facts{-4: 0, -3: 1, -2: 0, 9: 0, 10: 2, 19: 2, 20: 4, 21: 0, 1 << 31: 0, -1 << 40: 0, 1<<32 + 10: 0} {
		if got := ranges.number(n); got != want {
			t.Errorf("%d is %d, want %d", n, got, want)
		}
	}
	words := table{beginnings: 1<<4 | 1<<1}
	facts := map[hash]byte{}
	for word, fact := range map[string]byte{"409 *": 2, "409 a": 1, "a*": 3, "abc": 4, "b": 5} {
		facts[noHash.add(word)] = fact
	}
	for _, h := range slices.Sorted(maps.Keys(facts)) {
		words.words, words.facts = append(words.words, uint32(h)), words.facts+string([]byte{facts[h]})
	}
	for key, want := range map[[2]string]Facts{
		{"", "b"}: 5, {"", "abc"}: 4, {"", "ab"}: 3, {"", "a"}: 3, {"", "c"}: 0, {"", ""}: 0, {"", "409 x"}: 2,
		{"409", "a"}: 1, {"409", "abc"}: 4, {"409", "b"}: 5, {"409", "x"}: 2, {"409", ""}: 2, {"410", "x"}: 0, {"410", "ax"}: 3,
		{"", strings.Repeat("a", longest)}: 3, {"", strings.Repeat("a", 9*longest)}: 3, {"", strings.Repeat("b", 9*longest)}: 0, {"a", strings.Repeat("a", longest)}: 3,
	} {
		if got := words.word(key[0], key[1]); got != want {
			t.Errorf("%q is %d, want %d", key, got, want)
		}
	}
	if got := testing.AllocsPerRun(100, func() { awsCodes.word("DynamoDB", "ProvisionedThroughputExceededException") }); got != 0 {
		t.Errorf("%v allocations for a word", got)
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

// Every word of every table of words, by the errors of every type that has it.
func TestWords(t *testing.T) {
	for _, tt := range []struct {
		pkg, name string
		of        func(string) any
		table     string
	}{
		{"", "", func(s string) any { return redisError(s + " and more") }, "redis"},
		{"github.com/gomodule/redigo/redis", "Error", func(s string) any { return redigoError(s) }, "redis"},
		{"github.com/redis/rueidis", "RedisError", func(s string) any { return redigoError(s) }, "redis"},
		{"github.com/valkey-io/valkey-go", "ValkeyError", func(s string) any { return redigoError(s) }, "redis"},
		{"go.etcd.io/etcd/api/v3/v3rpc/rpctypes", "EtcdError", func(s string) any { return byEtcd{0, s} }, "etcd"},
		{"github.com/twitchtv/twirp", "twerr", func(s string) any { return &twirpErr{s} }, "twirp"},
		{"github.com/minio/minio-go/v7", "ErrorResponse", func(s string) any { return withString{s} }, "aws"},
		{"github.com/prometheus/client_golang/api/prometheus/v1", "Error", func(s string) any { return &withType{s} }, "prometheus"},
		{"github.com/openai/openai-go/v3/internal/apierror", "Error", func(s string) any { return &withString{s} }, "openai"},
		{"github.com/sashabaranov/go-openai", "APIError", func(s string) any { return &withAny{s} }, "openai"},
		{"github.com/go-acme/lego/v4/acme", "ProblemDetails", func(s string) any { return &withType{s} }, "acme"},
		{"github.com/neo4j/neo4j-go-driver/v5/neo4j/db", "Neo4jError", func(s string) any { return &withString{s} }, "neo4j"},
	} {
		for _, row := range rowsOf(t, tt.table) {
			if row.Pattern() || strings.Contains(row.Code, " ") && tt.table != "etcd" {
				continue
			}
			if got, want := read(tt.of(row.Code), tt.pkg, tt.name), (Answer{Facts: tableOf(tt.table).word("", row.Code)}); got != want {
				t.Errorf("%s.%s %q: %v, want %v", tt.pkg, tt.name, row.Code, got, want)
			}
		}
		if got := read(tt.of(""), tt.pkg, tt.name); got != (Answer{}) {
			t.Errorf("%s.%s without a code: %v", tt.pkg, tt.name, got)
		}
	}
	if got := read(&struct{ redigoError }{"LOADING"}, "example.com/redis", "Error"); got != (Answer{}) {
		t.Errorf("of another package: %v", got)
	}
	for text, want := range map[string]Class{"redis: nil": Permanent, "redis nil message": Permanent, "valkey nil message": Permanent,
		"redis: nil, or not": Unknown, "ERR max number of clients reached": Throttled, "ERR max": Unknown, "ERR max number of clients + cluster connections reached": Throttled, "LOADING": Transient} {
		if got := read(redisError(text), "", ""); got != (Answer{Facts: Facts(want)}) {
			t.Errorf("%q: %v, want class %d", text, got, want)
		}
	}
	if Of(reflect.TypeFor[redigoError]()) != nil {
		t.Error("a string that is no error of Redis is read")
	}
}

// mongoErrV2 is an error of version 2 of the driver, which says its codes.
type mongoErrV2 struct{ mongoErr }

func (e mongoErrV2) ErrorCodes() []int { return e.codes }

func TestMongo(t *testing.T) {
	check := func(e mongoErr, want Facts) {
		t.Helper()
		for _, err := range []any{e, mongoErrV2{e}} {
			if got := read(err, "go.mongodb.org/mongo-driver/v2/mongo", "CommandError"); got != (Answer{Facts: want}) {
				t.Errorf("%T %+v: %v, want %b", err, e, got, want)
			}
		}
	}
	check(mongoErr{}, 0)
	for _, row := range rowsOf(t, "mongo") {
		from, _, _ := row.Numbers()
		code, want := int(from), tableOf("mongo").number(int64(from))
		check(mongoErr{codes: []int{code}}, want)
		check(mongoErr{"NetworkError", []int{code}}, Facts(Transient))
		if want.Class() == Permanent {
			check(mongoErr{codes: []int{code, 91}}, Facts(Transient))
			check(mongoErr{codes: []int{91, code}}, Facts(Transient))
		}
	}
	for _, label := range []string{"RetryableWriteError", "TransientTransactionError", "RetryableError", "NetworkError"} {
		check(mongoErr{label, nil}, Facts(Transient))
		check(mongoErr{label + " SystemOverloadedError", nil}, Facts(Throttled))
	}
	check(mongoErr{"UnknownTransactionCommitResult", nil}, 0)
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
		{"github.com/nats-io/nats.go", "jsError", func(n int) any { return &jsError{&byNATS{Code: n}} }},
		{"github.com/nats-io/nats.go/jetstream", "APIError", func(n int) any { return &withCode{n} }},
		{"github.com/nats-io/nats.go/jetstream", "jsError", func(n int) any { return &jsError{&byNATS{Code: n}} }},
		{"github.com/elastic/go-elasticsearch/v9/typedapi/types", "ElasticsearchError", func(n int) any { return &withStatus{n} }},
		{"github.com/opensearch-project/opensearch-go/v4", "StructError", func(n int) any { return &withStatus{n} }},
		{"github.com/opensearch-project/opensearch-go/v3/opensearchapi", "Error", func(n int) any { return &withStatus{n} }},
		{"github.com/olivere/elastic/v7", "Error", func(n int) any { return &withStatus{n} }},
		{"github.com/go-telegram-bot-api/telegram-bot-api/v5", "Error", func(n int) any { return &withCode{n} }},
		{"gopkg.in/telebot.v4", "Error", func(n int) any { return &withCode{n} }},
		{"github.com/bold-commerce/go-shopify/v4", "ResponseError", func(n int) any { return withStatus{n} }},
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
			{notFound{}, Answer{Facts: Facts(Permanent) | Blames}}, {unavailable{}, Answer{Facts: Facts(Transient)}}, {unknown{}, Answer{}}, {nil, Answer{}},
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
		{"gopkg.in/telebot.v4", "FloodError", limitedBy{7}, Answer{Status: 429, Hint: 7 * second}},
		{"github.com/go-telegram-bot-api/telegram-bot-api/v5", "Error", &parameters{withCode{429}, limitedBy{7}}, Answer{Status: 429, Hint: 7 * second}},
		{"github.com/bold-commerce/go-shopify/v4", "RateLimitError", shopify{withStatus{429}, 7}, Answer{Status: 429, Hint: 7 * second}},
		{hub, "RateLimitError", &github{Response: &http.Response{StatusCode: 403, Header: http.Header{"X-Ratelimit-Remaining": {"0"},
			"X-Ratelimit-Reset": {"7"}}}}, Answer{Status: 429, Hint: 7 * second, Beside: Beside{Timed: true}}},
		{hub, "RateLimitError", &github{}, Answer{Status: 429}},
		{hub, "AbuseRateLimitError", &abuse{&http.Response{StatusCode: 403}, &second}, Answer{Status: 429, Hint: second}},
		{hub, "AbuseRateLimitError", &abuse{&http.Response{StatusCode: 403}, nil}, Answer{Status: 429}},
		{stripes, "Error", &stripe{words("false"), 500}, Answer{Facts: Facts(Permanent) | Refuses, Status: 500, Hint: 3 * second, Beside: Beside{Timed: true}}},
		{stripes, "Error", &stripe{words("true"), 409}, Answer{Facts: Facts(Transient), Status: 409, Hint: 3 * second, Beside: Beside{Timed: true}}},
		{stripes, "Error", &stripe{words("true"), 429}, Answer{Status: 429, Hint: 3 * second, Beside: Beside{Timed: true}}},
		{stripes, "Error", &stripe{words("maybe"), 409}, Answer{Status: 409, Hint: 3 * second, Beside: Beside{Timed: true}}},
		{stripes, "Error", &stripe{nil, 409}, Answer{Status: 409}},
		{"github.com/openai/openai-go/v3/internal/apierror", "Error", &openai{"insufficient_quota", 429}, Answer{Facts: Facts(Permanent), Status: 429}},
		{"github.com/openai/openai-go/v3/internal/apierror", "Error", &openai{"", 503}, Answer{Facts: Facts(Throttled), Status: 503}},
		{"github.com/minio/minio-go/v7", "ErrorResponse", minio{"SlowDown", 503}, Answer{Facts: Facts(Throttled), Status: 503}},
		{"github.com/minio/minio-go/v7", "ErrorResponse", minio{"NoSuchKey", 404}, Answer{Status: 404}},
		{k8s, "StatusError", &kubernetes{status{"Conflict", 409, nil}}, Answer{Facts: Facts(Transient), Status: 409}},
		{k8s, "StatusError", &kubernetes{status{"AlreadyExists", 409, nil}}, Answer{Status: 409}},
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
		if r := rulesFor(tt.pkg, tt.name); r != nil {
			t.Errorf("%s.%s has the rules %v", tt.pkg, tt.name, r)
		}
	}
	if k := resolve(reflect.TypeFor[*withType](), rulesFor("github.com/go-sql-driver/mysql", "MySQLError")); k != nil {
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

// DuckDB's conflicts are a database's, which has rolled the transaction back.
func TestDuckDB(t *testing.T) {
	for _, pkg := range []string{"github.com/duckdb/duckdb-go/v2", "github.com/marcboeker/go-duckdb"} {
		e := &struct{ Type uint32 }{10}
		k := resolve(reflect.TypeOf(e), rulesFor(pkg, "Error"))
		if k == nil || !k.database || k.read(reflect.ValueOf(e)).Facts != Facts(Transient)|RolledBack {
			t.Errorf("%s: %+v", pkg, k)
		}
	}
}

// Of an error that errors.New has made the beginning may be all that is known, however long it is.
func TestBeginningsOfTexts(t *testing.T) {
	beginnings := 0
	for _, row := range rowsOf(t, "texts") {
		begin, is := strings.CutSuffix(row.Code, "*")
		if !is {
			continue
		}
		beginnings++
		facts, err := row.Facts()
		if err != nil {
			t.Fatal(err)
		}
		want := Class(slices.Index(oracle.Classes, facts.Class))
		for _, text := range []string{begin, begin + "x", begin + strings.Repeat(" x", longest)} {
			if got := Text(text).Class(); got != want {
				t.Errorf("%q is %d, want %d", text, got, want)
			}
		}
		for _, text := range []string{begin[1:] + "x", begin[:len(begin)-1] + "\x00"} {
			if got := Text(text); got != 0 {
				t.Errorf("%q is %d", text, got)
			}
		}
	}
	if beginnings < 5 {
		t.Errorf("the table has %d beginnings", beginnings)
	}
}
