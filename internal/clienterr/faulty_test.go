package clienterr

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"testing"
)

type (
	byStatus     int
	byHTTPStatus int
	byState      string
	byAWS        struct {
		code   string
		status int
	}
	byField   struct{ StatusCode int }
	noSuch    struct{ error }
	forbidden struct{ error }
	noSuchNow struct{ noSuch }
	wrapped   struct{ errdef error }
	byMongo   struct{ code int }
	byRPC     int
	byCatalog struct{ Code, SchemaName string }
)

func (e byStatus) Error() string             { return strconv.Itoa(int(e)) }
func (e byStatus) StatusCode() int           { return int(e) }
func (e byHTTPStatus) Error() string         { return strconv.Itoa(int(e)) }
func (e byHTTPStatus) HTTPStatusCode() int   { return int(e) }
func (e byState) Error() string              { return string(e) }
func (e byState) SQLState() string           { return string(e) }
func (e byAWS) Error() string                { return e.code }
func (e byAWS) ErrorCode() string            { return e.code }
func (e byAWS) HTTPStatusCode() int          { return e.status }
func (e *byField) Error() string             { return "" }
func (noSuchNow) Unavailable()               {}
func (noSuch) NotFound()                     {}
func (forbidden) Forbidden()                 {}
func (e byRPC) Error() string                { return strconv.Itoa(int(e)) }
func (e byRPC) ErrorCode() int               { return int(e) }
func (e byCatalog) Error() string            { return e.Code }
func (e byCatalog) SQLState() string         { return e.Code }
func (e byMongo) Error() string              { return "" }
func (e byMongo) HasErrorLabel(string) bool  { return false }
func (e byMongo) HasErrorCode(code int) bool { return e.code == code }

func TestFaulty(t *testing.T) {
	var malformedJSON, mistypedJSON, malformedXML, noNumber, tooLarge error
	malformedJSON = json.Unmarshal([]byte("{"), new(any))
	mistypedJSON = json.Unmarshal([]byte(`"a"`), new(int))
	malformedXML = xml.Unmarshal([]byte("<a"), new(struct{}))
	_, noNumber = strconv.Atoi("three")
	tooLarge = &http.MaxBytesError{}
	for err, want := range map[error]string{
		malformedJSON: "faulty", mistypedJSON: "faulty", malformedXML: "faulty", noNumber: "faulty", tooLarge: "faulty",
		byStatus(400): "faulty", byStatus(404): "faulty", byStatus(409): "faulty", byStatus(410): "faulty", byStatus(412): "faulty",
		byStatus(413): "faulty", byStatus(414): "faulty", byHTTPStatus(422): "faulty", &byField{404}: "faulty",
		byStatus(401): "known", byStatus(402): "known", byStatus(403): "known", byStatus(405): "known", byStatus(407): "known",
		byStatus(415): "faulty", byStatus(416): "faulty", byStatus(431): "faulty", byStatus(406): "known", byStatus(426): "known", byHTTPStatus(501): "known", byStatus(505): "known", &byField{405}: "known",
		byStatus(200): "", byStatus(0): "", &byField{0}: "",
		byAWS{"ValidationException", 400}: "faulty", byAWS{"AccessDeniedException", 400}: "known", byAWS{"ExpiredToken", 400}: "known",
		byState("23505"): "faulty", byState("22001"): "faulty", byState("21000"): "faulty", byState("44000"): "faulty", byState("54000"): "faulty", byState("54011"): "faulty",
		byState("P0001"): "faulty", byState("P0002"): "faulty", byState("P0004"): "known", byState("24000"): "known",
		byCatalog{"23505", "pg_catalog"}: "known", byCatalog{"23505", "public"}: "faulty",
		byRPC(-32602): "faulty", byRPC(-32600): "faulty", byRPC(3): "faulty", byRPC(-32601): "known", byRPC(-32005): "known", byRPC(-32000): "",
		byState("42P01"): "known", byState("28P01"): "known", byState("3D000"): "known", byState(""): "",
		noSuch{}: "faulty", noSuchNow{}: "", forbidden{}: "known",
		errors.New("EOF"): "", &net.DNSError{IsNotFound: true}: "", &net.ParseError{}: "",
		byMongo{11000}: "faulty", byMongo{121}: "faulty", byMongo{13}: "known",
	} {
		faulty, known := Faulty(err)
		if got := answer(faulty, known); got != want {
			t.Errorf("Faulty(%T %v) is %q, want %q", err, err, got, want)
		}
	}
}

func answer(faulty, known bool) string {
	switch {
	case faulty && known:
		return "faulty"
	case faulty:
		return "faulty and not known"
	case known:
		return "known"
	}
	return ""
}

type withErrorCode struct{ ErrorCode string }

func (*withErrorCode) Error() string { return "" }

func TestFaultyCodes(t *testing.T) {
	type reason struct{ Reason string }
	type kubernetes struct{ ErrStatus reason }
	for _, tt := range []struct {
		e         any
		pkg, name string
		want      string
	}{
		{&kubernetes{reason{"AlreadyExists"}}, "k8s.io/apimachinery/pkg/api/errors", "StatusError", "faulty"},
		{&kubernetes{reason{"Forbidden"}}, "k8s.io/apimachinery/pkg/api/errors", "StatusError", ""}, // its status decides
		{grpc(3), "google.golang.org/grpc/internal/status", "Error", "faulty"},
		{grpc(5), "google.golang.org/grpc/internal/status", "Error", "faulty"},
		{grpc(6), "google.golang.org/grpc/internal/status", "Error", "faulty"},
		{grpc(11), "google.golang.org/grpc/internal/status", "Error", "faulty"},
		{grpc(7), "google.golang.org/grpc/internal/status", "Error", "known"},
		{grpc(9), "google.golang.org/grpc/internal/status", "Error", "known"},
		{grpc(12), "google.golang.org/grpc/internal/status", "Error", "known"},
		{grpc(16), "google.golang.org/grpc/internal/status", "Error", "known"},
		{&grpcError{}, "google.golang.org/grpc/internal/status", "Error", ""},
		{&connectErr{code: 5}, "connectrpc.com/connect", "Error", "faulty"},
		{&connectErr{code: 16}, "connectrpc.com/connect", "Error", "known"},
		{&connectErr{}, "connectrpc.com/connect", "Error", ""},
		{&twirpErr{"malformed"}, "github.com/twitchtv/twirp", "twerr", "faulty"},
		{&twirpErr{"bad_route"}, "github.com/twitchtv/twirp", "twerr", "known"},
		{&withNumber{2627}, "github.com/microsoft/go-mssqldb", "Error", "faulty"},
		{&withNumber{18456}, "github.com/microsoft/go-mssqldb", "Error", "known"},
		{&withUnsigned{1062}, "github.com/go-sql-driver/mysql", "MySQLError", "faulty"},
		{&withUnsigned{1045}, "github.com/go-sql-driver/mysql", "MySQLError", "known"},
		{&withUnsigned{9999}, "github.com/go-sql-driver/mysql", "MySQLError", ""},
		{kError(10), "github.com/IBM/sarama", "KError", "faulty"},
		{kError(29), "github.com/IBM/sarama", "KError", "known"},
		{&withCode{550}, "net/textproto", "Error", "faulty"},
		{&withCode{535}, "net/textproto", "Error", "known"},
		{&withCode{403}, "google.golang.org/api/googleapi", "Error", ""}, // its status decides
		{&withString{"AccessDenied"}, "github.com/minio/minio-go", "ErrorResponse", "known"},
		{&withString{"NoSuchKey"}, "github.com/minio/minio-go", "ErrorResponse", ""},
		{&withErrorCode{"invalid_grant"}, "golang.org/x/oauth2", "RetrieveError", "known"},
		{&withErrorCode{""}, "golang.org/x/oauth2", "RetrieveError", "known"}, // its status is about the credentials, too
		{&withString{"insufficient_quota"}, "github.com/openai/openai-go/internal/apierror", "Error", "known"},
		{&wrapped{noSuch{}}, "github.com/docker/docker/client", "httpError", "faulty"},
		{&wrapped{forbidden{}}, "github.com/docker/docker/client", "httpError", "known"},
		{&wrapped{}, "github.com/docker/docker/client", "httpError", ""},
		{&withType{"bad_data"}, "github.com/prometheus/client_golang/api/prometheus/v1", "Error", "known"},
		{&withAny{}, "github.com/redis/rueidis", "RedisError", "known"},
	} {
		k := resolve(reflect.TypeOf(tt.e), find(tt.pkg, tt.name))
		faulty, known := k.faulty(reflect.ValueOf(tt.e))
		if got := answer(faulty, known); got != tt.want {
			t.Errorf("%s %v is %q, want %q", tt.pkg, fmt.Sprintf("%+v", tt.e), got, tt.want)
		}
	}
}
