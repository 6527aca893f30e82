package clienterr

import (
	"reflect"
	"strings"

	"github.com/goretry/retry/internal/errtree"
)

// Methods that say what an error means, in the order in which they are called: an error may have
// several.
const (
	ofMongo uint8 = iota
	ofSafeToRetry
	ofErrorCode
	ofOrigErr
	ofSQLState
	ofField
	ofNumber
	ofRetryable
	ofRetryableError
	ofStatusCode
	ofHTTPStatusCode
	ofGetStatusCode
	ofGetHTTPStatusCode
	ofHTTPStatus
	ofSwagger
)

// methods make targets of types with these methods. askMethod calls them.
var methods = [...]func() any{
	ofMongo:             errtree.New[mongoError],
	ofSafeToRetry:       errtree.New[safeToRetry],
	ofErrorCode:         errtree.New[coder],
	ofOrigErr:           errtree.New[awserr],
	ofSQLState:          errtree.New[sqlStater],
	ofField:             errtree.New[fielder],
	ofNumber:            errtree.New[numberer],
	ofRetryable:         errtree.New[interface{ Retryable() bool }],
	ofRetryableError:    errtree.New[interface{ RetryableError() bool }],
	ofStatusCode:        errtree.New[interface{ StatusCode() int }],
	ofHTTPStatusCode:    errtree.New[interface{ HTTPStatusCode() int }],
	ofGetStatusCode:     errtree.New[interface{ GetStatusCode() int }],
	ofGetHTTPStatusCode: errtree.New[interface{ GetHTTPStatusCode() int }],
	ofHTTPStatus:        errtree.New[interface{ HTTPStatus() int }],
	ofSwagger:           errtree.New[swagger],
}

// askMethod calls a method of err. Facts and status are 0 if it does not decide.
func askMethod(method uint8, err error) (f Facts, status int) {
	switch e := err; method {
	case ofMongo:
		f = judgeMongo(e.(mongoError))
	case ofSafeToRetry:
		switch {
		case !e.(safeToRetry).SafeToRetry():
		case reflect.TypeOf(err).String() == "*pgconn.connLockError":
			f = Facts(Transient) // pgx returns this error also after a statement whose answer was lost
		default:
			f = Facts(Unprocessed)
		}
	case ofErrorCode:
		f = awsCode("", e.(coder))
	case ofOrigErr:
		f = awsCodes.word("", e.(awserr).Code())
	case ofSQLState:
		f = SQLState(e.(sqlStater).SQLState(), err)
	case ofField:
		f = SQLState(e.(fielder).Field('C'), err)
	case ofNumber:
		f = jsonrpcCodes.number(int64(e.(numberer).ErrorCode()))
	case ofRetryable:
		f = retryable(e.(interface{ Retryable() bool }).Retryable())
	case ofRetryableError:
		f = retryable(e.(interface{ RetryableError() bool }).RetryableError())
	case ofStatusCode:
		status = e.(interface{ StatusCode() int }).StatusCode()
	case ofHTTPStatusCode:
		status = e.(interface{ HTTPStatusCode() int }).HTTPStatusCode()
	case ofGetStatusCode:
		status = e.(interface{ GetStatusCode() int }).GetStatusCode()
	case ofGetHTTPStatusCode:
		status = e.(interface{ GetHTTPStatusCode() int }).GetHTTPStatusCode()
	case ofHTTPStatus:
		status = e.(interface{ HTTPStatus() int }).HTTPStatus()
	case ofSwagger:
		status = e.(swagger).Code()
	}
	return f, status
}

type (
	safeToRetry = interface{ SafeToRetry() bool }
	coder       = interface{ ErrorCode() string }
	sqlStater   = interface{ SQLState() string }
	fielder     = interface{ Field(byte) string } // of bun's and go-pg's errors: C is the SQLSTATE
	numberer    = interface{ ErrorCode() int }

	// awserr is what errors of version 1 of AWS's SDK have, and of those made after it.
	awserr = interface {
		Code() string
		OrigErr() error
	}

	// swagger is what errors have that go-swagger has generated.
	swagger = interface {
		Code() int
		IsClientError() bool
	}

	// operation is what smithy's OperationError has: the name of an AWS service.
	operation = interface {
		error
		Service() string
		Operation() string
	}
)

// Methods make targets of types with methods that are called. An error may show them by its method As.
var Methods = append(methods[:], errtree.New[operation])

func retryable(yes bool) Facts {
	if yes {
		return Facts(Transient)
	}
	return Facts(Permanent)
}

// Service returns the service of AWS that err, whose type Names it, comes from.
func Service(err error) string { return err.(operation).Service() }

// Code judges err's own code of an AWS service, or 0. Inside of an error with a status it is
// more exact: AWS sends ThrottlingException with status 400. service is "" if nothing names
// it. err must not be a nil pointer.
func Code(err error, service string) Facts {
	e, ok := err.(coder)
	if !ok {
		return 0
	}
	if k := Of(reflect.TypeOf(err)); k.kind == inDynamoDB {
		return k.Read(err, true).Facts
	}
	return awsCode(service, e)
}

// awsCode judges a code of an AWS service. Of a conflict only the message may say that it passes.
func awsCode(service string, e coder) Facts {
	code := e.ErrorCode()
	if code == "ResourceConflictException" {
		if m, ok := e.(interface{ ErrorMessage() string }); ok {
			if f := awstextCodes.word("", m.ErrorMessage()); f != 0 {
				return f
			}
		}
	}
	return awsCodes.word(service, code)
}

// Judge returns what an error means, with all that it wraps. Package retry sets it: the
// queues of package retryqueue want to know what a Class does not say.
var Judge func(err error) Facts

// Database returns what an error of a database means. is reports whether err itself is one. err
// must not be a nil pointer.
func Database(err error) (f Facts, is bool) {
	k := Of(reflect.TypeOf(err))
	if k == nil || !k.database {
		return 0, false
	}
	return k.Read(err, true).Facts, true
}

// Renews reports whether a table says of err itself that a new session mends it, with whatever else
// it says. err must not be a nil pointer.
func Renews(err error) bool {
	if Text(err.Error()).Is(Renewed) || Code(err, "").Is(Renewed) {
		return true
	}
	k := Of(reflect.TypeOf(err))
	if k == nil {
		return false
	}
	a := k.Read(err, true)
	return a.Facts.Is(Renewed) || a.Facts == 0 && Status(a.Status, a.Hint != 0 || a.Timed).Is(Renewed)
}

// markers are methods that are not called, as errors of Docker and containerd have them: to have
// one says it all. They are in the order in which they count.
var markers = [...]struct {
	method any // a nil pointer to a type that has it
	facts  Facts
}{
	{(*interface{ ResourceExhausted() })(nil), Facts(Throttled)},
	{(*interface{ DeadlineExceeded() })(nil), Facts(TimedOut)},
	{(*interface{ Unavailable() })(nil), Facts(Transient)},
	{(*interface{ System() })(nil), Facts(Transient)},
	{(*interface{ NotFound() })(nil), Facts(Permanent) | Blames},
	{(*interface{ InvalidParameter() })(nil), Facts(Permanent) | Blames},
	{(*interface{ Conflict() })(nil), Facts(Permanent) | Blames},
	{(*interface{ AlreadyExists() })(nil), Facts(Permanent) | Blames},
	{(*interface{ OutOfRange() })(nil), Facts(Permanent) | Blames},
	{(*interface{ Unauthorized() })(nil), Facts(Permanent)},
	{(*interface{ Forbidden() })(nil), Facts(Permanent)},
	{(*interface{ FailedPrecondition() })(nil), Facts(Permanent)},
	{(*interface{ NotImplemented() })(nil), Facts(Permanent)},
	{(*interface{ DataLoss() })(nil), Facts(Permanent)},
}

// redisText judges what Redis or Valkey says, or the client for it: three of them
// have a text for a reply that is nil.
func redisText(text string) Facts {
	switch text {
	case "redis: nil", "redis nil message", "valkey nil message":
		return Facts(Permanent)
	}
	if f := redisCodes.word("", text[:min(len(text), longest)]); f != 0 { // texts behind ERR
		return f
	}
	word, _, _ := strings.Cut(text, " ")
	return redisCodes.word("", word)
}

// A mongoError is one of MongoDB's driver.
type mongoError = interface {
	HasErrorLabel(string) bool
	HasErrorCode(int) bool
}

// judgeMongo judges an error that may have several codes and labels: what passes goes first.
func judgeMongo(e mongoError) (f Facts) {
	switch {
	case e.HasErrorLabel("SystemOverloadedError"):
		return Facts(Throttled)
	case e.HasErrorLabel("RetryableWriteError"), e.HasErrorLabel("TransientTransactionError"),
		e.HasErrorLabel("RetryableError"), e.HasErrorLabel("NetworkError"):
		return Facts(Transient)
	}
	for i := range max(len(mongoCodes.steps)-1, 0) { // not all versions of the driver say which codes it has
		facts := Facts(mongoCodes.facts[i])
		for code := mongoCodes.steps[i]; f.Class() < facts.Class() && code < mongoCodes.steps[i+1]; code++ {
			if e.HasErrorCode(int(code)) {
				f = facts
			}
		}
	}
	return f
}

// cut reports whether v, a *SyntaxError, says that JSON or XML has ended too
// early: the connection may have broken. Then a Decoder of encoding/json returns
// io.ErrUnexpectedEOF. After the end Unmarshal puts a blank, which is wrong only in a literal.
func cut(v reflect.Value) bool {
	t := pointed(v.Type())
	if t.Name() != "SyntaxError" {
		return false
	}
	text := errorText(v)
	if t.PkgPath() == "encoding/xml" {
		return strings.Contains(text, ": unexpected EOF")
	}
	return text == "unexpected end of JSON input" || strings.HasPrefix(text, "invalid character ' ' ")
}
