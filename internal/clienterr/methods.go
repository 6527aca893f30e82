package clienterr

import (
	"reflect"
	"strings"

	"github.com/goretry/retry/internal/errtree"
)

// A method says what an error means. ask calls it, and returns 0 twice if that does not decide.
type method struct {
	target func() any // a pointer to a type that has it
	ask    func(error) (f Facts, status int)
}

// methods are in the order in which they are called: an error may have several.
var methods = [...]method{
	{errtree.New[mongoError], func(err error) (Facts, int) { return judgeMongo(err.(mongoError)), 0 }},
	{errtree.New[safeToRetry], func(err error) (Facts, int) { return ofSafeToRetry(err.(safeToRetry)), 0 }},
	{errtree.New[coder], func(err error) (Facts, int) { return awsCode("", err.(coder)), 0 }},
	{errtree.New[awserr], func(err error) (Facts, int) { return awsCodes.word("", err.(awserr).Code()), 0 }},
	{errtree.New[sqlStater], func(err error) (Facts, int) { return SQLState(err.(sqlStater).SQLState(), err), 0 }},
	{errtree.New[fielder], func(err error) (Facts, int) { return SQLState(err.(fielder).Field('C'), err), 0 }},
	{errtree.New[numberer], func(err error) (Facts, int) { return jsonrpcCodes.number(int64(err.(numberer).ErrorCode())), 0 }},
	{errtree.New[retryabler], func(err error) (Facts, int) { return retryable(err.(retryabler).Retryable()), 0 }},
	{errtree.New[retryableErrorer], func(err error) (Facts, int) { return retryable(err.(retryableErrorer).RetryableError()), 0 }},
	{errtree.New[interface{ StatusCode() int }], func(err error) (Facts, int) { return 0, err.(interface{ StatusCode() int }).StatusCode() }},
	{errtree.New[interface{ HTTPStatusCode() int }], func(err error) (Facts, int) { return 0, err.(interface{ HTTPStatusCode() int }).HTTPStatusCode() }},
	{errtree.New[interface{ GetStatusCode() int }], func(err error) (Facts, int) { return 0, err.(interface{ GetStatusCode() int }).GetStatusCode() }},
	{errtree.New[interface{ GetHTTPStatusCode() int }], func(err error) (Facts, int) { return 0, err.(interface{ GetHTTPStatusCode() int }).GetHTTPStatusCode() }},
	{errtree.New[interface{ HTTPStatus() int }], func(err error) (Facts, int) { return 0, err.(interface{ HTTPStatus() int }).HTTPStatus() }},
	{errtree.New[swagger], func(err error) (Facts, int) { return 0, err.(swagger).Code() }},
}

// Methods make targets of types with methods that are called. An error may show them by its method As.
var Methods = func() (all []func() any) {
	for _, m := range methods {
		all = append(all, m.target)
	}
	return append(all, errtree.New[operation])
}()

type (
	safeToRetry = interface{ SafeToRetry() bool }
	coder       = interface{ ErrorCode() string }
	sqlStater   = interface{ SQLState() string }
	fielder     = interface{ Field(byte) string } // of bun's and go-pg's errors: C is the SQLSTATE
	numberer    = interface{ ErrorCode() int }
	retryabler  = interface{ Retryable() bool }

	retryableErrorer = interface{ RetryableError() bool }

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

// ofSafeToRetry judges an error of pgx.
func ofSafeToRetry(e safeToRetry) Facts {
	switch {
	case !e.SafeToRetry():
		return 0
	case reflect.TypeOf(e).String() == "*pgconn.connLockError":
		return Facts(Transient) // pgx returns this error also after a statement whose answer was lost
	}
	return Facts(Unprocessed)
}

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
