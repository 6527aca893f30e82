package clienterr

import (
	"reflect"
	"strings"
)

// methods says which methods a type has that are called, so that the others need not be
// looked for.
type methods uint16

const (
	hasSafeToRetry methods = 1 << iota
	hasErrorCode
	hasErrorNumber
	hasSQLState
	hasRetryable
	hasRetryableError
	hasStatusCode
	hasHTTPStatusCode
	hasGetStatusCode
	hasCode  // of MongoDB
	hasLabel // likewise
	hasService
)

// Methods are the types with these methods, in the order of the bits. An error may show them by its method As.
var Methods = [...]reflect.Type{
	reflect.TypeFor[interface{ SafeToRetry() bool }](),
	reflect.TypeFor[interface{ ErrorCode() string }](),
	reflect.TypeFor[interface{ ErrorCode() int }](),
	reflect.TypeFor[interface{ SQLState() string }](),
	reflect.TypeFor[interface{ Retryable() bool }](),
	reflect.TypeFor[interface{ RetryableError() bool }](),
	reflect.TypeFor[interface{ StatusCode() int }](),
	reflect.TypeFor[interface{ HTTPStatusCode() int }](),
	reflect.TypeFor[interface{ GetStatusCode() int }](),
	reflect.TypeFor[interface{ HasErrorCode(int) bool }](),
	reflect.TypeFor[interface{ HasErrorLabel(string) bool }](),
	reflect.TypeFor[operation](),
}

func methodsOf(t reflect.Type) (m methods) {
	for i, method := range Methods {
		if t.Implements(method) {
			m |= 1 << i
		}
	}
	return m
}

// ask judges an error by its methods, one after the other: an error may have several, and the
// first may not decide. If none of those that say it all does, it returns a status, or 0.
func (k *Type) ask(err error) (f Facts, status int) {
	switch {
	case k.kind == inRedis:
		return redisText(err.Error()), 0
	case k.methods&hasCode != 0 && k.methods&hasLabel != 0:
		return judgeMongo(err.(mongoError)), 0
	}
	if k.methods&hasSafeToRetry != 0 && err.(interface{ SafeToRetry() bool }).SafeToRetry() {
		// pgx returns this error also after a statement whose answer was lost.
		if reflect.TypeOf(err).String() == "*pgconn.connLockError" {
			return Facts(Transient), 0
		}
		return Facts(Unprocessed), 0
	}
	if f = k.code(err, ""); f != 0 {
		return f, 0
	}
	if k.methods&hasSQLState != 0 {
		if f = SQLState(err.(interface{ SQLState() string }).SQLState(), err); f != 0 {
			return f, 0
		}
	}
	if k.methods&hasErrorNumber != 0 {
		if f = jsonrpcCodes.number(int64(err.(interface{ ErrorCode() int }).ErrorCode())); f != 0 {
			return f, 0
		}
	}
	switch {
	case k.methods&hasRetryable != 0:
		return retryable(err.(interface{ Retryable() bool }).Retryable()), 0
	case k.methods&hasRetryableError != 0:
		return retryable(err.(interface{ RetryableError() bool }).RetryableError()), 0
	case k.methods&hasStatusCode != 0:
		return 0, err.(interface{ StatusCode() int }).StatusCode()
	case k.methods&hasHTTPStatusCode != 0:
		return 0, err.(interface{ HTTPStatusCode() int }).HTTPStatusCode()
	case k.methods&hasGetStatusCode != 0:
		return 0, err.(interface{ GetStatusCode() int }).GetStatusCode()
	}
	return 0, 0
}

func retryable(yes bool) Facts {
	if yes {
		return Facts(Transient)
	}
	return Facts(Permanent)
}

// operation is what smithy's OperationError has: the name of an AWS service.
type operation interface {
	error
	Service() string
	Operation() string
}

// Service returns the service of AWS that err, whose type Names it, comes from.
func Service(err error) string { return err.(operation).Service() }

// Code judges err's own code of an AWS service, or 0. Inside of an error with a status it is
// more exact: AWS sends ThrottlingException with status 400. service is "" if nothing names
// it. err must not be a nil pointer.
func Code(err error, service string) Facts {
	if k := Of(reflect.TypeOf(err)); k != nil {
		return k.code(err, service)
	}
	return 0
}

func (k *Type) code(err error, service string) Facts {
	if k.methods&hasErrorCode == 0 {
		return 0
	}
	for i := range k.codes {
		if c := &k.codes[i]; c.kind == inDynamoDB {
			return c.factsOf(reflect.ValueOf(err), 0)
		}
	}
	return awsCodes.word(service, err.(interface{ ErrorCode() string }).ErrorCode())
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

// factsOfMethods returns what errors of a type mean by a marker method, which is not called, as
// those of Docker and containerd.
func factsOfMethods(t reflect.Type) Facts {
	for _, m := range markers {
		if t.Implements(m.method) {
			return m.facts
		}
	}
	return 0
}

// markers are in the order in which they count.
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
	if f := redisCodes.word("", text); f != 0 { // whole texts behind ERR
		return f
	}
	word, _, _ := strings.Cut(text, " ")
	return redisCodes.word("", word)
}

// A mongoError is one of MongoDB's driver.
type mongoError interface {
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
	if e, ok := e.(interface{ ErrorCodes() []int }); ok {
		for _, code := range e.ErrorCodes() {
			f = stronger(f, mongoCodes.number(int64(code)))
		}
		return f
	}
	for i, from := range mongoCodes.steps[:len(mongoCodes.steps)-1] { // version 1 of the driver says only which it has
		for code := from; mongoCodes.facts[i] != 0 && code < mongoCodes.steps[i+1]; code++ {
			if more := stronger(f, Facts(mongoCodes.facts[i])); more != f && e.HasErrorCode(int(code)) {
				f = more
			}
		}
	}
	return f
}

// stronger returns which of two errors' facts count for both: those of what passes.
func stronger(f, more Facts) Facts {
	if f.Class() < more.Class() {
		return more
	}
	return f
}

// cut reports whether v, a *SyntaxError, says that JSON or XML has ended too
// early: the connection may have broken. Then a Decoder of encoding/json returns
// io.ErrUnexpectedEOF. After the end Unmarshal puts a blank, which is wrong only in a literal.
func cut(v reflect.Value) bool {
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Name() != "SyntaxError" {
		return false
	}
	text := v.Interface().(error).Error()
	if t.PkgPath() == "encoding/xml" {
		return strings.Contains(text, ": unexpected EOF")
	}
	return text == "unexpected end of JSON input" || strings.HasPrefix(text, "invalid character ' ' ")
}
