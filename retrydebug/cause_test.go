package retrydebug_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrydebug"
)

// state is an error with an SQLSTATE.
type state string

func (s state) Error() string    { return "ERROR: deadlock, process " + string(s) }
func (s state) SQLState() string { return "40P01" }

// What attempts fail with is counted by operation, class, code and text. Numbers in the
// text make no difference.
func TestCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "op")
		p.MaxAttempts = 5
		run(p, errors.New("read 10.0.0.1:41532: reset"), errors.New("read 10.0.0.17:9: reset"), state("17"), state("4711"), limit.ErrLimited)
		run(p, retry.After(errDown, ms), errDown, retry.ErrRejected) // a poll is no failure
		none := map[string]int{"10s": 0, "1m": 0, "1h": 0}
		want := []cause{
			{Class: "transient", Error: "connection refused", Attempts: map[string]int{"10s": 1, "1m": 1, "1h": 1}, Runs: none},
			{Class: "throttled", Error: "connection refused", Attempts: map[string]int{"10s": 1, "1m": 1, "1h": 1}, Runs: none},
			{Class: "transient", Code: "40P01", Error: "ERROR: deadlock, process 4711", Attempts: map[string]int{"10s": 2, "1m": 2, "1h": 2}, Runs: none},
			{Class: "unprocessed", Code: "limit.limited", Refused: true, Error: "limit: too many attempts in flight", Attempts: map[string]int{"10s": 1, "1m": 1, "1h": 1},
				Runs: map[string]int{"10s": 1, "1m": 1, "1h": 1}}, // it was the last of its run
		}
		check := func(when string) {
			t.Helper()
			r := read(t, &page)
			got := r.operation(t, "op").Causes
			last := time.Now()
			for i := range got {
				if got[i].Time.After(last) && !got[i].Refused { // refusals come last
					t.Errorf("%s: the latest is not first", when)
				}
				last, got[i].Time = got[i].Time, time.Time{}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n%+v\nwant\n%+v", when, got, want)
			}
		}
		check("four causes: the fifth took the place of the one that was not met for longest")
		time.Sleep(20 * time.Second)
		for i := range want {
			want[i].Attempts["10s"] = 0
		}
		want[3].Runs["10s"] = 0
		check("after 20 s")
		run(p.Named("other"), errDown)
		check("after another operation's failure")
		run(p, errDown)
		want[0].Attempts = map[string]int{"10s": 1, "1m": 2, "1h": 2}
		check("after one more")
		time.Sleep(61 * time.Minute)
		for i := range want {
			want[i].Attempts, want[i].Runs = none, none
		}
		check("after an hour")
	})
}

// Failures of runs that do not end are counted in the seconds that they happen in.
func TestCausesOfRunsUnderway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "op")
		p.MaxAttempts, p.Backoff = retry.Unlimited, retry.Constant(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go func() { _ = retry.Run(ctx, p, func(context.Context) error { return errDown }) }()
		time.Sleep(30*time.Second + 500*ms)
		r := read(t, &page)
		got := r.operation(t, "op").Causes
		if len(got) != 1 || !reflect.DeepEqual(got[0].Attempts, map[string]int{"10s": 10, "1m": 31, "1h": 31}) {
			t.Errorf("%+v", got)
		}
	})
}

// In an outage behind a budget and a limit the page says first what fails, and shows
// refusals as its consequence.
func TestCausesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "pay")
		p.Budget = new(retry.EarnedBudget)
		for i := range 100 {
			err := limit.ErrLimited
			if i%10 == 0 {
				err = fmt.Errorf("dial tcp 10.0.0.9:%d: connection refused", 1000+i)
			}
			run(p, err, err, err)
		}
		text := parse(t, get(t, &page, "").Body).all("main")[0].words()
		first := strings.Index(text, "connection refused")
		for _, refusal := range []string{"budget", "too many attempts in flight"} {
			if i := strings.Index(text, refusal); i < first {
				t.Errorf("%q is at %d, what fails at %d:\n%s", refusal, i, first, text)
			}
		}
		run(p, breaker.ErrOpen, breaker.ErrOpen, breaker.ErrOpen)
		all := text + parse(t, get(t, &page, "").Body).all("main")[0].words()
		for _, want := range []string{"limit: too many attempts in flight refused here limit.limited", "the circuit is open, because most attempts have failed refused here breaker.open"} {
			if !strings.Contains(all, want) {
				t.Errorf("a refusal is not shown as one: %q is not in\n%s", want, all)
			}
		}
		r := read(t, &page)
		causes := r.operation(t, "pay").Causes
		if len(causes) != 3 || causes[0].Refused || !causes[1].Refused || !causes[1].Time.After(causes[0].Time) {
			t.Errorf("in the JSON what failed does not come before later refusals: %+v", causes)
		}
		if len(r.Failed) > 6 {
			t.Errorf("%d failed runs for two errors, by reason and with or without retries", len(r.Failed))
		}
	})
}

// A process with many errors has a short table, and says how many more there are.
func TestManyCauses(t *testing.T) {
	var page retrydebug.Recorder
	for i := range 10 {
		p := policy(&page, fmt.Sprint("op", i))
		p.MaxAttempts, p.Backoff = 4, retry.Constant(0)
		run0(p, errors.New("a"), errors.New("b"), errors.New("c"), errors.New("d"))
	}
	text := parse(t, get(t, &page, "").Body).all("main")[0].words()
	if !strings.Contains(text, "20 further errors in the JSON.") {
		t.Error(text)
	}
}

// run0 makes a run whose attempts end so, and take no time.
func run0(p retry.Policy, errs ...error) {
	n := 0
	_ = retry.Run(context.Background(), p, func(context.Context) error { n++; return errs[n-1] })
}
