package clienterr_test

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"strconv"
	"testing"

	_ "github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
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
func (noSuch) NotFound()                     {}
func (forbidden) Forbidden()                 {}
func (e byRPC) Error() string                { return strconv.Itoa(int(e)) }
func (e byRPC) ErrorCode() int               { return int(e) }
func (e byCatalog) Error() string            { return e.Code }
func (e byCatalog) SQLState() string         { return e.Code }
func (e byMongo) Error() string              { return "" }
func (e byMongo) HasErrorLabel(string) bool  { return false }
func (e byMongo) HasErrorCode(code int) bool { return e.code == code }

// The class of each error is Permanent; is the call's content to blame?
func TestBlames(t *testing.T) {
	var malformedJSON, mistypedJSON, malformedXML, noNumber, tooLarge error
	malformedJSON = json.Unmarshal([]byte("{]"), new(any))
	mistypedJSON = json.Unmarshal([]byte(`"a"`), new(int))
	malformedXML = xml.Unmarshal([]byte("<a b></a>"), new(struct{}))
	_, noNumber = strconv.Atoi("three")
	tooLarge = &http.MaxBytesError{}
	for err, want := range map[error]bool{
		malformedJSON: true, mistypedJSON: true, malformedXML: true, noNumber: true, tooLarge: true,
		byStatus(400): true, byStatus(404): true, byStatus(409): true, byStatus(410): true, byStatus(412): true,
		byStatus(413): true, byStatus(414): true, byHTTPStatus(422): true, &byField{404}: true,
		byStatus(401): false, byStatus(402): false, byStatus(403): false, byStatus(405): false, byStatus(407): false,
		byStatus(415): true, byStatus(416): true, byStatus(431): true, byStatus(406): false, byStatus(426): false, byHTTPStatus(501): false, byStatus(505): false, &byField{405}: false,
		byAWS{"ValidationException", 400}: true, byAWS{"AccessDeniedException", 400}: false, byAWS{"ExpiredToken", 400}: false,
		byState("23505"): true, byState("22001"): true, byState("21000"): true, byState("44000"): true, byState("54000"): true, byState("54011"): true,
		byState("P0001"): true, byState("P0002"): true, byState("P0004"): false, byState("24000"): false,
		byCatalog{"23505", "public"}: true,
		byRPC(-32602):                true, byRPC(-32600): true, byRPC(3): true, byRPC(-32601): false,
		byState("42P01"): false, byState("28P01"): false, byState("3D000"): false,
		noSuch{}: true, forbidden{}: false,
		byMongo{11000}: true, byMongo{121}: true, byMongo{13}: false,
	} {
		f := clienterr.Judge(err)
		if f.Class() != clienterr.Permanent || f.Is(clienterr.Blames) != want {
			t.Errorf("%T %v is %b, want it to be permanent, and blame the content: %t", err, err, f, want)
		}
	}
}
