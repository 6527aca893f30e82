package clienterr

import (
	"reflect"
	"strings"
)

// A method is one, or several, that say what an error means.
type method struct {
	of   reflect.Type
	read func(error) (f Facts, status int) // both 0 if it does not decide
}

// methods are in the order in which they are called: an error may have several.
var methods = [...]method{
	{reflect.TypeFor[mongoError](), func(err error) (Facts, int) { return judgeMongo(err.(mongoError)), 0 }},
	{reflect.TypeFor[interface{ SafeToRetry() bool }](), func(err error) (f Facts, status int) {
		switch {
		case !err.(interface{ SafeToRetry() bool }).SafeToRetry():
		case reflect.TypeOf(err).String() == "*pgconn.connLockError":
			f = Facts(Transient) // pgx returns this error also after a statement whose answer was lost
		default:
			f = Facts(Unprocessed)
		}
		return f, 0
	}},
	{reflect.TypeFor[coder](), func(err error) (Facts, int) { return awsCodes.word("", err.(coder).ErrorCode()), 0 }},
	{reflect.TypeFor[sqlStater](), func(err error) (Facts, int) { return SQLState(err.(sqlStater).SQLState(), err), 0 }},
	{reflect.TypeFor[interface{ ErrorCode() int }](), func(err error) (Facts, int) {
		return jsonrpcCodes.number(int64(err.(interface{ ErrorCode() int }).ErrorCode())), 0
	}},
	{reflect.TypeFor[interface{ Retryable() bool }](), func(err error) (Facts, int) {
		return retryable(err.(interface{ Retryable() bool }).Retryable()), 0
	}},
	{reflect.TypeFor[interface{ RetryableError() bool }](), func(err error) (Facts, int) {
		return retryable(err.(interface{ RetryableError() bool }).RetryableError()), 0
	}},
	{reflect.TypeFor[interface{ StatusCode() int }](), func(err error) (Facts, int) {
		return 0, err.(interface{ StatusCode() int }).StatusCode()
	}},
	{reflect.TypeFor[interface{ HTTPStatusCode() int }](), func(err error) (Facts, int) {
		return 0, err.(interface{ HTTPStatusCode() int }).HTTPStatusCode()
	}},
	{reflect.TypeFor[interface{ GetStatusCode() int }](), func(err error) (Facts, int) {
		return 0, err.(interface{ GetStatusCode() int }).GetStatusCode()
	}},
}

type (
	coder     = interface{ ErrorCode() string }
	sqlStater = interface{ SQLState() string }

	// operation is what smithy's OperationError has: the name of an AWS service.
	operation = interface {
		error
		Service() string
		Operation() string
	}
)

// Methods are the types with methods that are called. An error may show them by its method As.
var Methods = func() (all []reflect.Type) {
	for _, m := range methods {
		all = append(all, m.of)
	}
	return append(all, reflect.TypeFor[operation]())
}()

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
	return awsCodes.word(service, e.ErrorCode())
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
	method reflect.Type
	facts  Facts
}{
	{reflect.TypeFor[interface{ ResourceExhausted() }](), Facts(Throttled)},
	{reflect.TypeFor[interface{ DeadlineExceeded() }](), Facts(TimedOut)},
	{reflect.TypeFor[interface{ Unavailable() }](), Facts(Transient)},
	{reflect.TypeFor[interface{ System() }](), Facts(Transient)},
	{reflect.TypeFor[interface{ NotFound() }](), Facts(Permanent) | Blames},
	{reflect.TypeFor[interface{ InvalidParameter() }](), Facts(Permanent) | Blames},
	{reflect.TypeFor[interface{ Conflict() }](), Facts(Permanent) | Blames},
	{reflect.TypeFor[interface{ AlreadyExists() }](), Facts(Permanent) | Blames},
	{reflect.TypeFor[interface{ OutOfRange() }](), Facts(Permanent) | Blames},
	{reflect.TypeFor[interface{ Unauthorized() }](), Facts(Permanent)},
	{reflect.TypeFor[interface{ Forbidden() }](), Facts(Permanent)},
	{reflect.TypeFor[interface{ FailedPrecondition() }](), Facts(Permanent)},
	{reflect.TypeFor[interface{ NotImplemented() }](), Facts(Permanent)},
	{reflect.TypeFor[interface{ DataLoss() }](), Facts(Permanent)},
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
	for i, from := range mongoCodes.steps[:len(mongoCodes.steps)-1] { // not all versions of the driver say which codes it has
		facts := Facts(mongoCodes.facts[i])
		for code := from; f.Class() < facts.Class() && code < mongoCodes.steps[i+1]; code++ {
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
