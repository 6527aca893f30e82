package retrydebug_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrydebug"
)

// full returns a limit without a place.
func full(t *testing.T) *limit.Limit {
	t.Helper()
	l := &limit.Limit{Max: 1}
	if _, err := (retry.Policy{Guards: []retry.Guard{l}}).Admit(t.Context(), retry.Entry{}); err != nil {
		t.Fatal(err)
	}
	return l
}

// plan has attempts wait for so long each, or refuses them by an error.
type plan []any

func (p *plan) Enter(context.Context, retry.Entry) (pass retry.Pass, err error) {
	if len(*p) == 0 {
		return retry.Pass{}, nil
	}
	next := (*p)[0]
	*p = (*p)[1:]
	if err, ok := next.(error); ok {
		return retry.Pass{}, err
	}
	return retry.Pass{Wait: next.(time.Duration)}, nil
}
func (p *plan) Leave(retry.Pass, retry.Exit) {}

// The page says of a call that waits for its turn what it waits for, and until when.
func TestCallsThatWaitForAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		pace := &pace.Pace{Quota: 1, Per: 6 * time.Second}
		p := policy(&page, "model")
		p.Guards = []retry.Guard{pace}
		_ = retry.Run(t.Context(), p, func(context.Context) error { return nil })
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = retry.Run(ctx, p, func(context.Context) error { return nil }) }()
		go func() { // waits for a retry
			_ = retry.Run(ctx, policy(&page, "other"), func(context.Context) error { return retry.After(errDown, time.Minute) })
		}()
		time.Sleep(2 * time.Second)
		words := parse(t, get(t, &page, "").Body).all("main")[0].words()
		for _, want := range []string{"Underway: 2, 2 of them waiting, 1 for a guard", "2.00s model 1 of 3 waiting for pace.Pace , next try in 4.00s"} {
			if !strings.Contains(words, want) {
				t.Errorf("the page does not say %q:\n%s", want, words)
			}
		}
		r := read(t, &page)
		if o := r.operation(t, "model"); r.Live.Guarded != 1 || r.Live.Waiting != 2 || o.Guarded != 1 || o.Waiting != 1 || r.operation(t, "other").Guarded != 0 {
			t.Errorf("%+v, %+v", r.Live, o)
		}
		for _, n := range r.Live.Oldest {
			want := live{Name: "model", Attempt: 1, Limit: 3, State: "waiting", Guard: "pace.Pace"}
			if n.Name == "other" {
				want = live{Name: "other", Attempt: 2, Limit: 3, State: "waiting", LastError: "connection refused", Hint: 60}
			}
			if n.NextIn <= 0 || n.Age != 2 {
				t.Errorf("%+v", n)
			}
			if n.NextIn, n.Age, n.For = 0, 0, 0; n != want {
				t.Errorf("%+v, want %+v", n, want)
			}
		}
		cancel()
		synctest.Wait()
		if r := read(t, &page); r.Live.Total != 0 || r.Live.Guarded != 0 || r.operation(t, "model").Guarded != 0 {
			t.Errorf("still live: %+v", r.Live)
		}
	})
}

// Whoever looks at the page because a service is broken sees which guard refuses how much.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "pay")
		p.Guards = []retry.Guard{full(t)}
		for range 104 {
			run(p)
		}
		for range 10 {
			run(policy(&page, "search"))
		}
		words := parse(t, get(t, &page, "").Body).all("main")[0].words()
		at := 0
		for _, want := range []string{
			"pay : limit.Limit refuses 100% of 104 runs in the last 20.9s.",
			"91% of all 114 runs failed. 0.09 attempts per run.",
			"pay fails in 100% of its runs: limit.Limit refuses 100% . They end with: guard 100%.",
			"limit.Limit refused 312 attempts of pay in the last ",
			"What attempts fail with",
			"pay 104 limit: too many attempts in flight refused by limit.Limit limit.limited 312 ",
			"Last runs that failed",
			"pay limit: too many attempts in flight guard 200ms, 0 attempts, waited 200ms the last of 104 like it",
			"limit.Limit refused attempt 1 3 times: limit: too many attempts in flight · wait 200ms",
		} {
			i := strings.Index(words[at:], want)
			if i < 0 {
				t.Fatalf("%q is not in, or not after the others:\n%s", want, words)
			}
			at += i
		}
		r := read(t, &page)
		o := r.operation(t, "pay")
		if w := o.Windows["1h"]; w.Attempts != 0 || w.Failed != 104 || w.Reasons["guard"] != 104 || o.LastError != nil {
			t.Errorf("%+v, %+v: a refusal is no attempt", w, o.LastError)
		}
		if len(o.Causes) != 1 || o.Causes[0].Guard != "limit.Limit" || !o.Causes[0].Refused || o.Causes[0].Class != "unprocessed" || o.Causes[0].Attempts["1h"] != 312 {
			t.Errorf("%+v", o.Causes)
		}
		if len(r.Failed) != 1 || r.Failed[0].Count != 104 || r.Failed[0].Reason != "guard" || len(r.Failed[0].Steps) != 1 {
			t.Fatalf("%+v", r.Failed)
		}
		want := step{Attempt: 1, Class: "unprocessed", Error: "limit: too many attempts in flight", Wait: .2, Guard: "limit.Limit", Refused: 3}
		if got := r.Failed[0].Steps[0]; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// A guard that refuses because attempts have failed does not hide why they fail.
func TestRefusalsDoNotHideWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "pay")
		p.MaxAttempts = 4
		for range 10 {
			p.Guards = []retry.Guard{&plan{time.Duration(0), limit.ErrLimited, limit.ErrLimited, limit.ErrLimited}}
			run(p, errDown)
		}
		words := parse(t, get(t, &page, "").Body).all("main")[0].words()
		at := 0
		for _, want := range []string{
			"pay : retrydebug_test.plan refuses 100% of 10 runs in the last ",
			"pay fails in 100% of its runs: retrydebug_test.plan refuses 100%; attempts fail with: connection refused . They end with: guard 100%.",
			"retrydebug_test.plan refused 30 attempts of pay",
			"pay 10 limit: too many attempts in flight refused by retrydebug_test.plan limit.limited 30 ", "pay 0 connection refused transient 10 ",
		} {
			i := strings.Index(words[at:], want)
			if i < 0 {
				t.Fatalf("%q is not in, or not after the others:\n%s", want, words)
			}
			at += i
		}
	})
}

// stops is a guard that ends runs.
type stops struct{ plan }

func (s *stops) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{}, retry.Stop(errors.New("no"))
}

// If guards end at least half of the runs that fail, the headline says which, and of which
// operation. Otherwise it says how many failed.
func TestHeadline(t *testing.T) {
	for name, tt := range map[string]struct {
		limited, stopped, failed, well int // runs of complete
		others                         int // runs of search that fail
		want                           []string
	}{
		"a guard alone":            {limited: 4, want: []string{"complete : limit.Limit refuses 100% of 4 runs in the last 3.00s. 0.00 attempts per run."}},
		"a guard, and some are ok": {limited: 98, well: 2, want: []string{"complete : limit.Limit refuses 98% of 100 runs in the last 3.00s."}},
		"a guard, and the server":  {limited: 97, failed: 1, well: 2, want: []string{"complete : limit.Limit refuses 97% of 100 runs in the last 3.00s, the server fails 1%."}},
		"half":                     {limited: 2, failed: 2, want: []string{"complete : limit.Limit refuses 50% of 4 runs in the last 3.00s, the server fails 50%."}},
		"two guards":               {limited: 6, stopped: 3, failed: 1, want: []string{"complete : limit.Limit refuses 60% of 10 runs in the last 3.00s, retrydebug_test.stops refuses 30%, the server fails 10%."}},
		"the server more":          {limited: 2, failed: 3, well: 5, want: []string{"50% of 10 runs failed in the last 3.00s.", "complete fails in 50% of its runs: the server fails 30%, limit.Limit refuses 20%; attempts fail with: connection refused . They end with:"}},
		"another operation": {limited: 6, others: 4, want: []string{"complete : limit.Limit refuses 100% of 6 runs in the last 3.00s.", "100% of all 10 runs failed.",
			"complete fails in 100% of its runs", "limit.Limit refused 6 attempts of complete", "search fails in 100% of its runs"}},
		"another operation is more": {limited: 4, others: 6, want: []string{"100% of 10 runs failed in the last 3.00s.", "search fails in 100% of its runs: connection refused", "complete fails in 100% of its runs: limit.Limit refuses 100%"}},
		"nothing":                   {well: 1, want: []string{"No run failed in the last 3.00s."}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var page retrydebug.Recorder
				started := time.Now()
				page.Hooks()
				make := func(n int, name string, g retry.Guard, err error) {
					for range n {
						p := policy(&page, name)
						p.MaxAttempts, p.Guards = 1, []retry.Guard{g}
						_ = retry.Run(t.Context(), p, func(context.Context) error { return err })
					}
				}
				make(tt.limited, "complete", full(t), nil)
				make(tt.stopped, "complete", &stops{}, nil)
				make(tt.failed, "complete", nil, errDown)
				make(tt.well, "complete", nil, nil)
				make(tt.others, "search", nil, errDown)
				time.Sleep(3*time.Second - time.Since(started))
				words := parse(t, get(t, &page, "").Body).all("main")[0].words()
				at := 0
				for _, want := range tt.want {
					i := strings.Index(words[at:], want)
					if i < 0 || want == tt.want[0] && i > 0 {
						t.Fatalf("%q is not in, or not after the others:\n%s", want, words)
					}
					at += i
				}
			})
		})
	}
}

// Lines are in the order of the runs that were lost, and loud if that is a twentieth or more.
func TestLoudness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		for name, n := range map[string][2]int{"few": {24, 1000}, "most": {18, 20}, "twentieth": {10, 200}} {
			p := policy(&page, name)
			p.MaxAttempts = 1
			for i := range n[1] {
				_ = retry.Run(t.Context(), p, func(context.Context) error {
					if i < n[0] {
						return errDown
					}
					return nil
				})
			}
		}
		body := parse(t, get(t, &page, "").Body)
		var got []string
		for _, p := range body.all("p") {
			if words := p.words(); strings.Contains(words, "fail") {
				got = append(got, p.attrs["class"]+": "+strings.SplitN(words, ":", 2)[0])
			}
		}
		want := []string{"headline some: 4% of 1220 runs failed in the last <0.1ms.", "some: few fails in 2% of its runs", "bad: most fails in 90% of its runs", "bad: twentieth fails in 5% of its runs"}
		if !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		got = nil
		for _, td := range body.all("td") {
			if words := td.words(); words == "2%" || words == "90%" || words == "5%" {
				got = append(got, td.attrs["class"]+": "+words)
			}
		}
		if want := []string{"n some: 2%", "n bad: 90%", "n bad: 5%"}; !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
	})
}

// A run counts for what its last attempt has failed with, or was refused by, also if that was
// long before its end.
func TestRunsOfCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "op")
		p.MaxAttempts, p.Backoff = retry.Unlimited, retry.Constant(10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		n := 0
		_ = retry.Run(ctx, p, func(context.Context) error { n++; return []error{errDown, retry.After(errDown, 0)}[n-1] })
		p.MaxAttempts, p.Guards = 1, []retry.Guard{full(t)}
		run(p)
		time.Sleep(time.Second)
		r := read(t, &page)
		var got []string
		for _, c := range r.operation(t, "op").Causes {
			got = append(got, fmt.Sprint(c.Class, " ", c.Guard, ": ", c.Runs["1m"], " of ", c.Attempts["1m"]))
		}
		if want := []string{"throttled : 1 of 1", "transient : 0 of 1", "unprocessed limit.Limit: 1 of 1"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// What guards refuse is not as loud as the rest if no run is lost by it.
func TestRefusalsThatCostNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "spared")
		p.Guards = []retry.Guard{&plan{limit.ErrLimited}}
		run(p)
		p = policy(&page, "lost")
		p.MaxAttempts, p.Guards = 1, []retry.Guard{&plan{limit.ErrLimited}}
		run(p)
		var got []string
		for _, tr := range parse(t, get(t, &page, "").Body).all("tr") {
			if words := tr.words(); strings.Contains(words, "refused by") {
				got = append(got, tr.attrs["class"]+": "+strings.SplitN(words, " ", 2)[0])
			}
		}
		if want := []string{": lost", "muted: spared"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// A cause whose place was taken before its run ended is forgotten, and one that was not keeps its
// text.
func TestCausesOfRunsThatEndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		h := page.Hooks()
		end := func(text string) (end func()) {
			ctx := h.Start(t.Context(), retry.Policy{Name: "op"})
			a := retry.Attempt{Number: 1, Start: time.Now()}
			h.Attempt(ctx, a)
			a.Err, a.Class = errors.New(text), retry.Transient
			h.AttemptDone(ctx, a)
			return func() { h.Done(ctx, retry.Summary{Attempts: 1, Reason: retry.ReasonMaxAttempts, Err: a.Err}) }
		}
		causes := func() (all []string) {
			r := read(t, &page)
			for _, c := range r.operation(t, "op").Causes {
				all = append(all, fmt.Sprint(c.Error, " ", c.Runs["1m"], " of ", c.Attempts["1m"]))
			}
			slices.Sort(all)
			return all
		}
		first, second := end("a"), end("b")
		causes() // counts what was met
		second()
		if got, want := causes(), []string{"a 0 of 1", "b 1 of 1"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		time.Sleep(time.Second)
		for _, text := range []string{"c", "d", "e", "f"} {
			end(text)()
		}
		causes()
		first()
		if got, want := causes(), []string{"c 1 of 1", "d 1 of 1", "e 1 of 1", "f 1 of 1"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Two runs that were refused after different errors are two entries.
func TestRefusalsAfterDifferentErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "pay")
		p.MaxAttempts = 2
		for i := range 6 {
			p.Guards = []retry.Guard{&plan{time.Duration(0), limit.ErrLimited}}
			run(p, []error{errDown, fmt.Errorf("reset")}[i%2])
		}
		if r := read(t, &page); len(r.Failed) != 2 || r.Failed[0].Count != 3 || r.Failed[1].Count != 3 {
			t.Errorf("%+v, want two entries of three runs", r.Failed)
		}
	})
}

// Waits for a guard and refusals are in the story of a run, in words and on its bar.
func TestStoryWithGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "op")
		p.MaxAttempts = 5
		// Attempt 1 waits for 300 ms, attempt 2 is refused twice, attempt 3 waits and is the last.
		p.Guards = []retry.Guard{&plan{300 * ms, limit.ErrLimited, limit.ErrLimited, time.Duration(0), 200 * ms}}
		run(p, errDown, errDown, errDown)
		r := read(t, &page)
		wantSteps := []step{
			{Attempt: 1, Wait: .3, Guard: "retrydebug_test.plan", Class: "unknown"},
			{Attempt: 1, Start: .3, Seconds: .01, Class: "transient", Error: "connection refused", Wait: .1},
			{Attempt: 2, Start: .41, Wait: .2, Guard: "retrydebug_test.plan", Refused: 2, Class: "unprocessed", Error: "limit: too many attempts in flight"},
			{Attempt: 2, Start: .61, Seconds: .01, Class: "transient", Error: "connection refused", Wait: .1},
			{Attempt: 3, Start: .72, Wait: .2, Guard: "retrydebug_test.plan", Class: "unknown"},
			{Attempt: 3, Start: .92, Seconds: .01, Class: "transient", Error: "connection refused"},
		}
		if len(r.Failed) != 1 || fmt.Sprint(r.Failed[0].Steps) != fmt.Sprint(wantSteps) {
			t.Fatalf("%+v\nwant %+v", r.Failed, wantSteps)
		}
		doc := parse(t, get(t, &page, "").Body)
		want := "retrydebug_test.plan held attempt 1 back · wait 300ms · 10ms connection refused · wait 100ms · " +
			"retrydebug_test.plan refused attempt 2 2 times: limit: too many attempts in flight · wait 200ms · 10ms connection refused · wait 100ms · " +
			"retrydebug_test.plan held attempt 3 back · wait 200ms · 10ms connection refused"
		if words := doc.all("main")[0].words(); !strings.Contains(words, want) {
			t.Errorf("%q\nis not in\n%s", want, words)
		}
		var bars []string
		for _, svg := range doc.all("svg") {
			if svg.attrs["class"] == "bar" {
				for _, r := range svg.all("rect")[1:] {
					bars = append(bars, fmt.Sprintf("%s %s+%s", r.attrs["class"], r.attrs["x"], r.attrs["width"]))
				}
			}
		}
		if got, want := strings.Join(bars, ", "), "pause 0+1000, guard 0+322, attempt 322+11, guard 440+215, attempt 655+11, guard 774+215, attempt 989+11"; got != want {
			t.Errorf("bars %s\nwant %s", got, want)
		}
	})
}

// An attempt that a guard holds back or refuses has not failed: a run that succeeds then
// has succeeded at once.
func TestGuardsAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "op")
		p.Guards = []retry.Guard{&plan{limit.ErrLimited, 300 * ms}}
		run(p)
		r := read(t, &page)
		if o := r.operation(t, "op"); o.Windows["1h"].FirstTry != 1 || o.LastError != nil || len(r.Failed) != 0 {
			t.Errorf("%+v, failed %+v", o, r.Failed)
		}
	})
}
