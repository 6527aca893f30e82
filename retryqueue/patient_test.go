package retryqueue_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryqueue"
)

type state string

func (s state) Error() string    { return string(s) }
func (s state) SQLState() string { return string(s) }

func status(code int) error { return &retryhttp.StatusError{Code: code} }

// gaveUp returns the error of an inner run that has one attempt.
func gaveUp(p retry.Policy, err error) error {
	p.MaxAttempts = 1
	return retry.Run(context.Background(), p, func(context.Context) error { return err })
}

// clientError returns the error of http.Client for a request with a header.
func clientError(url, name, value string) error {
	req, _ := http.NewRequest("GET", url, nil)
	req.Header[name] = []string{value}
	_, err := http.DefaultClient.Do(req)
	return err
}

func jsonError(url, name, value string) error {
	req, _ := http.NewRequest("GET", url, nil)
	req.Header[name] = []string{value}
	_, err := retryhttp.JSON[any](context.Background(), retry.Policy{}, nil, req)
	return err
}

// jsonAnswer returns the error of JSON for a status.
func jsonAnswer(code int) error {
	base := transport(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: http.NoBody, Request: req}, nil
	})
	req, _ := http.NewRequest("GET", "https://a.example", nil)
	_, err := retryhttp.JSON[any](context.Background(), retry.Policy{}, &http.Client{Transport: base}, req)
	return err
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestPatientEndsWhatTheMessageIsGuiltyOf(t *testing.T) {
	malformed := json.Unmarshal([]byte("{]"), new(any))
	never := retry.Policy{Classify: func(error) retry.Class { return retry.Permanent }}
	unknownName := &net.DNSError{Err: "no such host", Name: "hook.example", IsNotFound: true}
	var none *retry.Error
	for name, tt := range map[string]struct {
		err   error
		waits bool
	}{
		"400":                               {status(400), false},
		"404":                               {status(404), false},
		"409":                               {status(409), false},
		"422":                               {status(422), false},
		"415":                               {status(415), false},
		"416":                               {status(416), false},
		"431":                               {status(431), false},
		"a header with a line end":          {clientError("https://a.example", "X-Name", "a\nb"), false},
		"a header without a name":           {clientError("https://a.example", "", "a"), false},
		"a URL without a host":              {clientError("https:///", "X-Name", "a"), false},
		"a URL of no protocol":              {clientError("gopher://a.example", "X-Name", "a"), false},
		"a header with a line end, by JSON": {jsonError("https://a.example", "X-Name", "a\nb"), false},
		"404, by JSON":                      {jsonAnswer(404), false},
		"404, by JSON in a run":             {gaveUp(retry.Policy{}, jsonAnswer(404)), false},
		"a marked 401 of JSON":              {gaveUp(retry.Policy{}, retry.Stop(jsonAnswer(401))), false},
		"a malformed body":                  {malformed, false},
		"a duplicate key":                   {state("23505"), false},
		"wrapped":                           {fmt.Errorf("send: %w", status(422)), false},
		"joined":                            {errors.Join(io.EOF, status(404), status(401)), false},
		"in a run":                          {gaveUp(retry.Policy{}, status(404)), false},
		"in a run in a run":                 {gaveUp(retry.Policy{}, fmt.Errorf("inner: %w", gaveUp(retry.Policy{}, malformed))), false},
		"a run that a mark ended":           {gaveUp(retry.Policy{}, retry.Stop(errDown)), false},
		"a run that a mark on a 403 ended":  {gaveUp(retry.Policy{}, retry.Stop(status(403))), false},
		"a mark on no such name":            {gaveUp(retry.Policy{}, fmt.Errorf("hook: %w", retry.Stop(unknownName))), false},
		"a marked 403 in a run in a run":    {gaveUp(retry.Policy{}, gaveUp(retry.Policy{}, retry.Stop(status(403)))), false},
		"a run with an answer":              {gaveUp(retry.Policy{}, retry.Answer(status(403))), false},
		"a run that its own policy ended":   {gaveUp(never, errDown), false},
		"a run that may have done its work": {gaveUp(retry.Policy{NonIdempotent: true}, errDown), false},
		"a mark":                            {retry.Stop(unknownName), false},

		"401":                      {status(401), true},
		"403":                      {status(403), true},
		"405":                      {status(405), true},
		"501":                      {status(501), true},
		"401, by JSON":             {jsonAnswer(401), true},
		"403, by JSON in a run":    {gaveUp(retry.Policy{}, jsonAnswer(403)), true},
		"no status":                {jsonAnswer(600), true},
		"no such name":             {unknownName, true},
		"no such name, by HTTP":    {&url.Error{Op: "Post", Err: &net.OpError{Op: "dial", Err: unknownName}}, true},
		"an expired certificate":   {&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, true},
		"a certificate of nobody":  {x509.UnknownAuthorityError{}, true},
		"TLS is not spoken":        {tls.RecordHeaderError{}, true},
		"no such table":            {state("42P01"), true},
		"a wrong password":         {state("28P01"), true},
		"not there yet":            {sql.ErrNoRows, true},
		"no such file":             {fs.ErrNotExist, true},
		"joined the other way":     {errors.Join(io.EOF, status(401), status(404)), true},
		"401, in a run":            {gaveUp(retry.Policy{}, status(401)), true},
		"no name, in a run":        {gaveUp(retry.Policy{}, unknownName), true},
		"no name, in a run's run":  {gaveUp(retry.Policy{}, gaveUp(retry.Policy{}, unknownName)), true},
		"a run that gave up on it": {gaveUp(retry.Policy{Classify: func(error) retry.Class { return retry.Transient }}, unknownName), true},
		"a nil run":                {none, true},
		"redirects without end":    {&url.Error{Op: "Get", Err: errors.New("stopped after 10 redirects")}, true},
		"another protocol":         {&url.Error{Op: "Get", Err: errors.New("http: server gave HTTP response to HTTPS client")}, true},
		"what waits anyway":        {errDown, true},
		"503":                      {status(http.StatusServiceUnavailable), true},
	} {
		want := map[bool]retryqueue.Action{true: retryqueue.Retry, false: retryqueue.Dead}[tt.waits]
		m := retryqueue.Delivery{Number: 1, Stored: now, Now: now}
		if d := m.After(retry.Policy{}, tt.err); d.Action != want || want == retryqueue.Dead && d.Err.Reason != retry.ReasonPermanent {
			t.Errorf("%s: After(%v) = %+v, want %v", name, tt.err, d, want)
		}
		// Who wants it as in a process says so.
		d := m.After(retry.Policy{Classify: retry.DefaultClassifier}, tt.err)
		if permanent := (retry.Policy{}).Judge(tt.err).Class == retry.Permanent; (d.Action == retryqueue.Dead) != permanent {
			t.Errorf("%s, with DefaultClassifier: After(%v) = %+v", name, tt.err, d)
		}
		if c := retryqueue.Patient(tt.err); c != retry.Unknown && (c != retry.Transient || !tt.waits) && name != "a mark" {
			t.Errorf("%s: Patient() = %v", name, c)
		}
	}
}

// What Classify knows goes before Patient, and what it does not know does not.
func TestPatientComesAfterClassify(t *testing.T) {
	unknownName := &net.DNSError{IsNotFound: true}
	m := retryqueue.Delivery{Number: 1, Stored: now, Now: now}
	for class, want := range map[retry.Class]retryqueue.Action{
		retry.Permanent: retryqueue.Dead, retry.Transient: retryqueue.Retry, retry.Throttled: retryqueue.Retry, retry.Unknown: retryqueue.Retry,
	} {
		p := retry.Policy{Classify: func(error) retry.Class { return class }}
		if d := m.After(p, unknownName); d.Action != want {
			t.Errorf("after a Classify that says %v it is %v, want %v", class, d.Action, want)
		}
	}
}

// Patient waits, but it proves nothing: what may have been done is not done again.
func TestPatientProvesNothing(t *testing.T) {
	p := retry.Policy{NonIdempotent: true}
	for name, err := range map[string]error{
		"401": status(401), "421": status(421), "no such name": &net.DNSError{IsNotFound: true}, "not connected": &net.OpError{Op: "dial", Err: errDown},
	} {
		d := retryqueue.Delivery{Number: 1, Stored: now, Now: now}.After(p, err)
		if d.Action != retryqueue.Dead || d.Err.Reason != retry.ReasonNotIdempotent {
			t.Errorf("%s: After() = %+v, want not_idempotent", name, d)
		}
		d = retryqueue.Delivery{Number: 1, Stored: now, Now: now}.After(p, retry.Undone(err))
		if d.Action != retryqueue.Retry {
			t.Errorf("%s, undone: After() = %+v, want a retry", name, d)
		}
	}
}

// An answer that is of no use says nothing of the message.
func TestPatientWaitsForAnAnswerThatItCanUse(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/login":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>Please log in</html>")
		case "/maintenance":
			_, _ = io.WriteString(w, `["we are back at noon"]`)
		case "/loop", "/away":
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case "/unchanged":
			w.WriteHeader(http.StatusNotModified)
		case "/nowhere":
			w.WriteHeader(http.StatusFound)
		case "/long":
			_, _ = io.WriteString(w, `{"Name": "`+strings.Repeat("x", 100)+`"}`)
		case "/streamed": // of unknown length
			_, _ = io.WriteString(w, "<html>")
			_ = http.NewResponseController(w).Flush()
		case "/wrong":
			w.WriteHeader(422)
		}
	}))
	defer s.Close()
	type user struct{ Name string }
	get := func(path string) error {
		transport := &retryhttp.Transport{MaxResponse: 64}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		if path == "/away" {
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return errors.New("to another host") }
		}
		req, err := http.NewRequest("GET", s.URL+path, nil)
		if err != nil {
			return err
		}
		_, err = retryhttp.JSON[user](t.Context(), retry.Policy{Backoff: retry.Constant(0)}, client, req)
		return err
	}
	m := retryqueue.Delivery{Number: 1, Stored: now, Now: now}
	for path, want := range map[string]retryqueue.Action{
		"/login": retryqueue.Retry, "/maintenance": retryqueue.Retry, "/loop": retryqueue.Retry, "/away": retryqueue.Retry, "/unchanged": retryqueue.Retry,
		"/nowhere": retryqueue.Retry, "/long": retryqueue.Retry, "/streamed": retryqueue.Retry, "/empty": retryqueue.Retry, "/wrong": retryqueue.Dead,
	} {
		err := get(path)
		if e, ok := errors.AsType[*retry.Error](err); !ok || e.Reason != retry.ReasonPermanent || e.Attempts != 1 {
			t.Errorf("%s: %v, want a permanent error after one attempt", path, err)
		}
		if d := m.After(retry.Policy{}, fmt.Errorf("handle: %w", err)); d.Action != want {
			t.Errorf("%s: %v is %v, want %v", path, err, d.Action, want)
		}
	}
}

func ExamplePatient() {
	m := retryqueue.Delivery{Number: 1}
	policy := retry.Policy{MaxAttempts: 20, Backoff: retry.Exponential{Base: time.Second, Max: time.Hour}}
	unknownName := &net.DNSError{Err: "no such host", Name: "hooks.example.com", IsNotFound: true}
	fmt.Println("a name that is missing:", m.After(policy, unknownName).Action)
	fmt.Println("a body that is wrong:", m.After(policy, &retryhttp.StatusError{Code: 422}).Action)
	policy.Classify = retry.DefaultClassifier
	fmt.Println("without Patient:", m.After(policy, unknownName).Action)
	// Output:
	// a name that is missing: retry
	// a body that is wrong: dead
	// without Patient: dead
}
