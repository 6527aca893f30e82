package retrydebug_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydebug"
)

// longTests says that tests may take minutes: RETRY_LONG is 1, as CI sets it.
var longTests = os.Getenv("RETRY_LONG") == "1"

var errDown = errors.New("connection refused")

// report is the JSON as the package documentation describes it.
type report struct {
	Now, Since    time.Time
	Program, Host string
	PID           int
	Operations    []operation
	Live          struct {
		Total, Waiting, Guarded int
		Oldest                  []live
	}
	Budgets, Limits, Breakers, Gates, Targets, Hedges, Paces []gauge
	Failed                                                   []failed
}

type operation struct {
	Name          string
	Live, Waiting int
	Guarded       int
	Windows       map[string]window
	LastError     *lastError `json:"last_error"`
	Causes        []cause
	Other         bool
}

type cause struct {
	Class, Code, Guard, Error string
	Refused                   bool
	Time                      time.Time
	Attempts, Runs            map[string]int
}

type lastError struct {
	Time         time.Time
	Attempt      int
	Class, Error string
}

type window struct {
	Seconds                     float64
	Runs                        int
	FirstTry                    int `json:"first_try"`
	AfterRetry                  int `json:"after_retry"`
	Failed, Permanent, Canceled int
	Attempts                    int64 // more than an int of 32 bits holds
	P50, P99                    float64
	Reasons                     map[string]int
	History                     [][3]int
}

type live struct {
	Name           string
	Attempt, Limit int
	State          string
	Age, For       float64
	NextIn         float64 `json:"next_in"`
	Hint           float64
	Guard          string
	LastError      string `json:"last_error"`
}

type failed struct {
	Name            string
	Count           int
	Time            time.Time
	Reason          string
	Attempts        int
	Seconds, Waited float64
	Trace, Cause    string
	Steps           []step
}

type step struct {
	Attempt        int
	Start, Seconds float64
	Class, Error   string
	Wait, Hint     float64
	Guard          string
	Refused        int
}

// get requests the page from this machine.
func get(t testing.TB, page http.Handler, query string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest("GET", "/debug/retry"+query, nil)
	req.RemoteAddr, req.Host = "127.0.0.1:50000", "localhost:8080"
	w := httptest.NewRecorder()
	page.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	return w
}

// read returns what the page has as JSON.
func read(t testing.TB, page http.Handler) (r report) {
	t.Helper()
	d := json.NewDecoder(get(t, page, "?format=json").Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("JSON: %v", err)
	}
	return r
}

// operation returns that of a name.
func (r *report) operation(t testing.TB, name string) operation {
	t.Helper()
	for _, o := range r.Operations {
		if o.Name == name && !o.Other {
			return o
		}
	}
	t.Fatalf("no operation %q", name)
	return operation{}
}

// policy is recorded, and its waits are 100 ms.
func policy(page *retrydebug.Recorder, name string) retry.Policy {
	return retry.Policy{Name: name, Hooks: page.Hooks(), Backoff: retry.Constant(100 * time.Millisecond), Rand: func() float64 { return 0 }}
}

// run makes a run whose attempts take 10 ms each and return errs, and then nil.
func run(p retry.Policy, errs ...error) error {
	return retry.Run(context.Background(), p, taking(10*time.Millisecond, errs...))
}

func taking(d time.Duration, errs ...error) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d)
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

type gauge struct {
	Name                                      string
	Tokens                                    *float64
	Price                                     *prices
	Balance, Delay, Rate, Wait, Open, Resting *float64
	Closed                                    *float64
	Probe                                     float64
	Error                                     string
	InFlight                                  *int `json:"in_flight"`
	Places                                    *int
	Parts                                     int
	Worst                                     []gauge
}

type prices struct {
	Transient, Throttled float64
	TimedOut             float64 `json:"timed_out"`
}
