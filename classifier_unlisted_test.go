package retry_test

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// Errors as a vendor might have them whom nobody has listed.
type (
	worded   struct{ Code string }
	reasoned struct {
		StatusCode int
		reason     string
	}
	anyCoded  struct{ ErrorCode any }
	numbered  struct{ Code codeName }
	codeName  int
	ofSeveral struct{ Errors []worded }
	ofPart    struct{ Err *worded }
	ofConn    struct{ conn *worded } // whatever the connection says is not the error's
	hiding    struct{ status int }
	hidingIn  struct {
		status int
		text   string
	}
	plainCode struct{ Code int }
	stated    struct{ SQLState string }
	mayPass   struct {
		StatusCode int
		Retryable  bool
	}
	byTemporary struct{ StatusCode int }
	around      struct {
		Code string
		Err  error
	}
	aroundText struct{ error }
	constant   string
	noText     struct{ error }
	unlimited  struct {
		Code       string
		RetryAfter time.Duration
	}
)

func (e worded) Error() string    { return "x" }
func (e reasoned) Error() string  { return "x" }
func (e anyCoded) Error() string  { return "x" }
func (e numbered) Error() string  { return "x" }
func (c codeName) String() string { return map[codeName]string{1: "TooManyRequests", 2: "NotFound"}[c] }
func (e ofSeveral) Error() string { return "x" }
func (e ofPart) Error() string    { return "x" }
func (e ofConn) Error() string    { return "x" }
func (e hiding) Error() string {
	return "the service answered with HTTP status " + strconv.Itoa(e.status)
}
func (e hidingIn) Error() string      { return e.text }
func (e plainCode) Error() string     { return "code: " + strconv.Itoa(e.Code) + ", message: x" }
func (e stated) Error() string        { return "x" }
func (e mayPass) Error() string       { return "x" }
func (e byTemporary) Error() string   { return "x" }
func (e byTemporary) Temporary() bool { return true }
func (e around) Error() string        { return e.Code + ": " + e.Err.Error() }
func (e around) Unwrap() error        { return e.Err }
func (e aroundText) Unwrap() error    { return e.error }
func (e constant) Error() string      { return string(e) }
func (e unlimited) Error() string     { return "x" }

func TestUnlistedErrors(t *testing.T) {
	const unknown, permanent, transient, timedOut, throttled = retry.Unknown, retry.Permanent, retry.Transient, retry.TimedOut, retry.Throttled
	for _, tt := range []struct {
		name string
		err  error
		want retry.Class
	}{
		{"CamelCase", worded{"TableNotFoundException"}, permanent},
		{"snake_case", &worded{"rate_limit_exceeded"}, throttled},
		{"an acronym", worded{"DBInternalServerError"}, transient},
		{"an acronym in the middle", worded{"theRATELimit"}, throttled},
		{"dots", worded{"RequestLimitExceeded.UinLimit"}, throttled},
		{"a timeout", worded{"request-timeout"}, timedOut},
		{"what must not be repeated goes first", worded{"InvalidParameter.Throttling"}, permanent},
		{"unless the way to the server is at fault", worded{"CONNECTION_DOES_NOT_EXIST"}, unknown},
		{"a phrase goes before its words", worded{"UnknownError"}, unknown},
		{"a word alone", worded{"UNAVAILABLE"}, transient},
		{"the same word beside others", worded{"BackupsUnavailable"}, unknown},
		{"at the end", worded{"StateUnknown"}, unknown},
		{"not at the end", worded{"UnknownTable"}, permanent},
		{"other words", worded{"SomethingHappened"}, unknown},
		{"no word", worded{"42"}, unknown},
		{"no code", worded{""}, unknown},
		{"a sentence", worded{"the table was not found"}, unknown},
		{"a text in an interface", anyCoded{"not_found"}, permanent},
		{"nothing in an interface", anyCoded{}, unknown},
		{"a number with a name", numbered{1}, throttled},
		{"another", numbered{2}, permanent},
		{"a number without one", numbered{3}, unknown},
		{"in a slice", ofSeveral{[]worded{{"x"}, {"Forbidden"}}}, permanent},
		{"in an empty slice", ofSeveral{}, unknown},
		{"in a part", ofPart{&worded{"AccessDenied"}}, permanent},
		{"in no part", ofPart{}, unknown},
		{"not in what is no part", ofConn{&worded{"AccessDenied"}}, unknown},
		{"a constant in the text", constant("call 7: (24) KDC_ERR_POLICY_REQUIRED: x"), permanent},
		{"a word in the text is none", constant("DENIED by hand"), unknown},
		{"neither is a sentence", constant("access denied, not found"), unknown},

		{"400 with a throttle", reasoned{400, "Throttling"}, throttled},
		{"403 with a rate limit", reasoned{403, "rateLimitExceeded"}, throttled},
		{"400 of an unavailable service", reasoned{400, "ServiceUnavailable"}, transient},
		{"400 of a caller", reasoned{400, "InvalidParameter"}, permanent},
		{"409 without words", reasoned{409, ""}, permanent},
		{"429 without money", reasoned{429, "insufficient_quota"}, permanent},
		{"429 with other words", reasoned{429, "QuotaExceeded"}, throttled},
		{"503 of a busy server", reasoned{503, "ServerBusy"}, throttled},
		{"500 of what is not found", reasoned{500, "NotFound"}, transient},
		{"404 that may pass", mayPass{404, true}, transient},
		{"404 that does not say so", mayPass{404, false}, permanent},
		{"404 by a method", byTemporary{404}, transient},

		{"a hidden status that the text shows", hiding{404}, permanent},
		{"a hidden status that passes", hiding{503}, transient},
		{"a hidden number of another kind", hiding{200}, unknown},
		{"more digits than it has", hiding{4040}, unknown},
		{"a part of a longer number", hidingIn{404, "HTTP status 4041"}, unknown},
		{"a Code that is no status", plainCode{497}, unknown},
		{"a status with its phrase", constant("GET http://host/404: 429 Too Many Requests"), throttled},
		{"two of them", constant("a: 404 Not Found; b: 503 Service Unavailable"), unknown},
		{"one of them twice", constant("a: 404 Not Found; b: 404 Not Found"), permanent},
		{"one of mail", constant("550 Mailbox unavailable"), unknown},
		{"one with other digits", constant("14040 Not Found"), unknown},
		{"a decimal", constant("1.404 Not Found"), unknown},

		{"a SQLSTATE", stated{"23505"}, permanent},
		{"another SQLSTATE", stated{"40001"}, transient},
		{"no SQLSTATE", stated{"x"}, unknown},

		{"what it wraps goes first", around{"NotFound", status(503)}, transient},
		{"it counts if that says nothing", around{"NotFound", errors.New("x")}, permanent},
		{"a timeout that it wraps goes first", around{"NotFound", inVain{}}, timedOut},
		{"a status in the text of what it wraps is that one's", aroundText{fmt.Errorf("404 Not Found: %w", status(503))}, transient},
		{"a wait goes first", unlimited{"NotFound", time.Second}, transient},
		{"but for a throttle", unlimited{"SlowDown", time.Second}, throttled},
		{"a text of errors.New", errors.New("KDC_ERR_POLICY_REQUIRED: 404 Not Found"), unknown},
		{"in an error of net/url", &url.Error{Op: "Get", Err: worded{"NotFound"}}, unknown},
		{"an error without a text", noText{}, unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := retry.DefaultClassifier(tt.err); got != tt.want {
				t.Errorf("%T %+v is %v, want %v", tt.err, tt.err, got, tt.want)
			}
		})
	}
}

type inVain struct{}

func (inVain) Error() string { return "x" }
func (inVain) Timeout() bool { return true }

// Words prove nothing: a call that must not run twice does not.
func TestUnlistedErrorsProveNothing(t *testing.T) {
	for _, err := range []error{worded{"Throttling"}, worded{"ServiceUnavailable"}, reasoned{400, "Throttling"}, constant("421 Misdirected Request"), hiding{503}} {
		loop := retry.Policy{NonIdempotent: true, Classify: retry.DefaultClassifier, Backoff: retry.Constant(0)}.Start(time.Time{})
		if _, again := loop.Next(time.Time{}, err); again {
			t.Errorf("%T %+v is repeated", err, err)
		}
	}
}
