package clienterr

import (
	"reflect"
	"slices"
)

// Faulty reports whether err itself, without what it wraps, is about the request: the
// same request fails in the same way whatever becomes of the network, of the server and
// of the caller's rights. known says that err has a code, or a type, which decides that.
// err must not be a nil pointer.
func Faulty(err error) (faulty, known bool) {
	t := reflect.TypeOf(err)
	k := Of(t)
	if k != nil && k.Known {
		if faulty, known := k.faulty(reflect.ValueOf(err)); known {
			return faulty, true
		}
	}
	if e, ok := err.(interface{ ErrorCode() string }); ok && contains(awsRights, e.ErrorCode()) {
		return false, true // AWS sends them with status 400
	}
	if e, ok := err.(interface{ SQLState() string }); ok {
		return faultySQLState(e.SQLState(), err)
	}
	if e, ok := err.(interface{ ErrorCode() int }); ok {
		if code := e.ErrorCode(); JSONRPC(code) != Unknown {
			return slices.Contains(faultyJSONRPC, code), true
		}
	}
	status := 0
	switch e := err.(type) {
	case interface{ StatusCode() int }:
		status = e.StatusCode()
	case interface{ HTTPStatusCode() int }:
		status = e.HTTPStatusCode()
	}
	if status >= 400 {
		return faultyStatus(status), true
	}
	if faultyType(t) {
		return true, true
	}
	if t.String() == "*errors.errorString" {
		return faultyText(err.Error())
	}
	if k == nil {
		return false, false
	}
	if a := k.Read(err); a.Status != 0 {
		return faultyStatus(a.Status), true
	}
	known = k.class == Permanent
	return known && faultyMethods(t), known
}

// faultyStatus judges an HTTP status: bad request, not found, conflict, gone,
// precondition failed, content and URI too large, media type unsupported, range not
// satisfiable, unprocessable content, header fields too large. The others are about
// rights, routes and versions, which people change.
func faultyStatus(status int) bool {
	return slices.Contains([]int{400, 404, 409, 410, 412, 413, 414, 415, 416, 422, 431}, status)
}

// awsRights are codes for keys, rights, clocks and what does not exist yet, all with
// status 400 in some of the protocols of AWS.
const awsRights = "AccessDenied AccessDeniedException AuthFailure ExpiredToken ExpiredTokenException IncompleteSignature " +
	"InvalidAccessKeyId InvalidClientTokenId InvalidSignatureException MissingAuthenticationToken MissingAuthenticationTokenException " +
	"NotAuthorized OptInRequired RequestExpired ResourceNotFoundException SignatureDoesNotMatch UnauthorizedOperation " +
	"UnrecognizedClientException"

// malformed are types of errors about what was to be read, by package, as package retry
// names its types: it must not link these packages into each program.
var malformed = map[string]string{
	"encoding/json": "SyntaxError UnmarshalTypeError",
	"encoding/xml":  "SyntaxError UnmarshalError",
	"net/http":      "MaxBytesError",
	"strconv":       "NumError",
}

func faultyType(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return contains(malformed[t.PkgPath()], t.Name())
}

// faultyMethods judges a marker method, as classOfMethods does.
func faultyMethods(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[interface{ NotFound() }]()) ||
		t.Implements(reflect.TypeFor[interface{ InvalidParameter() }]()) ||
		t.Implements(reflect.TypeFor[interface{ Conflict() }]()) ||
		t.Implements(reflect.TypeFor[interface{ AlreadyExists() }]()) ||
		t.Implements(reflect.TypeFor[interface{ OutOfRange() }]())
}

// faulty judges the code of v, whose type has a rule.
func (k *Type) faulty(v reflect.Value) (faulty, known bool) {
	if k.mongo {
		e, ok := v.Interface().(mongoError)
		return ok && slices.ContainsFunc(faultyMongo, e.HasErrorCode), true
	}
	if k.kind == inRedis {
		return false, true
	}
	if inner := k.inner.of(v); inner.Kind() == reflect.Interface && !inner.IsNil() {
		return faultyMethods(inner.Elem().Type()), true
	}
	if k.code == nil {
		return false, false
	}
	code := value(k.code.of(v))
	if !code.IsValid() {
		return false, false
	}
	switch k.kind {
	case inTwirp:
		return contains("invalid_argument malformed not_found already_exists out_of_range", text(code)), text(code) != ""
	case inKubernetes:
		return text(code) == "AlreadyExists", text(code) == "AlreadyExists" // else its status decides
	case inOpenAI:
		return false, openai.class(text(code)) != Unknown
	case inAWS:
		return false, contains(awsRights, text(code)) // as above
	case inOAuth:
		return false, true // about the caller's own credentials, whatever the status
	case inConnect:
		return slices.Contains(faultyNumbers[inGRPC], number(code)), number(code) != 0
	}
	return slices.Contains(faultyNumbers[k.kind], number(code)), k.kind.class(code, value(k.also.of(v))) != Unknown
}

// faultyNumbers are codes that are about the request, by kind. Kinds that are not here
// have none, or none that is only about it.
var faultyNumbers = map[kind][]int64{
	inGRPC:  {3, 5, 6, 11},                     // INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, OUT_OF_RANGE
	inMySQL: {1048, 1062, 1406, 1451, 1452},    // null, duplicate key, too long, foreign key (two ways)
	inMSSQL: {245, 515, 547, 2601, 2627, 8152}, // conversion, null, constraint, duplicate key (two), truncation
	inKafka: {10, 18, 87},                      // message and batch too large, invalid record
	inReply: {550, 551, 553},                   // no such mailbox or file, and names that are not allowed
}

// faultyJSONRPC are a parse error, an invalid request, invalid parameters, and a call that
// was reverted.
var faultyJSONRPC = []int{-32700, -32600, -32602, 3}

// faultyMongo are a failed validation, and a duplicate key (three).
var faultyMongo = []int{121, 11000, 11001, 12582}
