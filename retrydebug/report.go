package retrydebug

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
)

// report is what the page shows, and what is served as JSON. Durations are in
// seconds.
type report struct {
	Now        time.Time         `json:"now"`
	Since      time.Time         `json:"since"`
	Program    string            `json:"program"`
	Host       string            `json:"host"`
	PID        int               `json:"pid"`
	Operations []operationReport `json:"operations"`
	Live       liveReport        `json:"live"`
	Budgets    []budgetReport    `json:"budgets"`
	Limits     []limitReport     `json:"limits"`
	Breakers   []breakerReport   `json:"breakers"`
	Gates      []gateReport      `json:"gates"`
	Targets    []targetReport    `json:"targets"`
	Hedges     []hedgeReport     `json:"hedges"`
	Paces      []paceReport      `json:"paces"`
	Failed     []failedReport    `json:"failed"`
}

type operationReport struct {
	Name      string                  `json:"name"`
	Other     bool                    `json:"other,omitempty"`
	Live      int                     `json:"live"`
	Waiting   int                     `json:"waiting"`
	Guarded   int                     `json:"guarded,omitempty"`
	LastError *errorReport            `json:"last_error,omitempty"`
	Causes    []causeReport           `json:"causes"`
	Windows   map[string]windowReport `json:"windows"`
}

type errorReport struct {
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt"`
	Class   string    `json:"class"`
	Error   string    `json:"error"`
}

type windowReport struct {
	Seconds    float64           `json:"seconds"`
	Runs       uint64            `json:"runs"`
	FirstTry   uint64            `json:"first_try"`
	AfterRetry uint64            `json:"after_retry"`
	Failed     uint64            `json:"failed"`
	Permanent  uint64            `json:"permanent"`
	Canceled   uint64            `json:"canceled"`
	Attempts   uint64            `json:"attempts"`
	P50        float64           `json:"p50"`
	P99        float64           `json:"p99"`
	Reasons    map[string]uint64 `json:"reasons"`
	History    [][3]uint64       `json:"history"` // first try and permanent, after retry, failed
}

type liveReport struct {
	Total   int         `json:"total"`
	Waiting int         `json:"waiting"`
	Guarded int         `json:"guarded,omitempty"`
	Oldest  []runReport `json:"oldest"`
}

type runReport struct {
	Name      string  `json:"name"`
	Attempt   int     `json:"attempt"`
	Limit     int     `json:"limit,omitempty"`
	State     string  `json:"state"`
	Age       float64 `json:"age"`
	For       float64 `json:"for"`
	NextIn    float64 `json:"next_in,omitempty"`
	Hint      float64 `json:"hint,omitempty"`
	Guard     string  `json:"guard,omitempty"`
	LastError string  `json:"last_error,omitempty"`
}

type failedReport struct {
	Name     string       `json:"name"`
	Count    int          `json:"count"`
	Time     time.Time    `json:"time"`
	Reason   string       `json:"reason"`
	Attempts int          `json:"attempts"`
	Seconds  float64      `json:"seconds"`
	Waited   float64      `json:"waited"`
	Trace    string       `json:"trace,omitempty"`
	Cause    string       `json:"cause,omitempty"`
	Steps    []stepReport `json:"steps"`
}

type stepReport struct {
	Attempt int     `json:"attempt"`
	Start   float64 `json:"start"`
	Seconds float64 `json:"seconds"`
	Class   string  `json:"class"`
	Error   string  `json:"error"`
	Wait    float64 `json:"wait,omitempty"`
	Hint    float64 `json:"hint,omitempty"`
	Guard   string  `json:"guard,omitempty"`
	Refused int     `json:"refused,omitempty"`
}

// process says which one this is.
var process = sync.OnceValue(func() (p struct{ program, host string }) {
	p.program = line(filepath.Base(os.Args[0]), longest)
	host, _ := os.Hostname()
	p.host = line(host, longest)
	return p
})

// report returns what is known now.
func (r *Recorder) report() *report {
	now := time.Now()
	age := now.Sub(r.since)
	// Times of day are relative to the clock's current time, which may have been set
	// meanwhile.
	at := func(since time.Duration) time.Time { return now.Add(since - age).Round(0) }
	var underway [names + 1][over]int // by their state
	var runs []runReport
	for _, s := range r.shards {
		s.mu.Lock()
		s.flush()
		for i, t := range s.tallies {
			if t != nil {
				for state, n := range t.in {
					underway[i][state] += n
				}
			}
		}
		runs = append(runs, s.oldest(age)...)
		s.mu.Unlock()
	}

	rep := &report{
		Now: now.Round(0), Since: at(0), Program: process().program, Host: process().host, PID: os.Getpid(),
		Operations: []operationReport{}, Live: liveReport{Oldest: []runReport{}}, Failed: []failedReport{},
		Budgets: reports(&r.gauges, &r.gauges.budgets, readBudget), Limits: reports(&r.gauges, &r.gauges.limits, readLimit),
		Breakers: reports(&r.gauges, &r.gauges.breakers, readBreaker), Gates: reports(&r.gauges, &r.gauges.gates, readGate),
		Targets: reports(&r.gauges, &r.gauges.targets, readTarget),
		Hedges:  reports(&r.gauges, &r.gauges.hedges, readHedge), Paces: reports(&r.gauges, &r.gauges.paces, readPace),
	}
	for i, op := range r.operations.all() {
		if op == nil {
			continue
		}
		o, used := op.report(age, at)
		in := &underway[i]
		o.Guarded = in[guarded]
		o.Waiting = in[waiting] + in[guarded]
		o.Live = in[attempting] + o.Waiting
		if op.other && !used && o.Live == 0 {
			continue
		}
		rep.Live.Total += o.Live
		rep.Live.Waiting += o.Waiting
		rep.Live.Guarded += o.Guarded
		rep.Operations = append(rep.Operations, o)
	}
	slices.SortStableFunc(rep.Operations, func(a, b operationReport) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(runs, func(a, b runReport) int { return cmp.Compare(b.Age, a.Age) })
	rep.Live.Oldest = append(rep.Live.Oldest, runs[:min(len(runs), oldest)]...)
	for _, s := range r.failures.all() {
		rep.Failed = append(rep.Failed, s.report(at))
	}
	return rep
}

// oldest returns the runs of s that began first.
func (s *shard) oldest(age time.Duration) (runs []runReport) {
	for n := s.first; n != nil && len(runs) < oldest; n = n.next {
		runs = append(runs, n.report(age))
	}
	return runs
}

func (n *run) report(age time.Duration) runReport {
	rep := runReport{
		Name: n.op.name, Attempt: n.number, Limit: n.limit, State: "attempting",
		Age: max(age-n.began, 0).Seconds(), For: max(age-n.since, 0).Seconds(),
	}
	if n.story != nil {
		rep.LastError = n.story.latest
	}
	if n.state != attempting {
		rep.State = "waiting"
		rep.NextIn, rep.Hint = max(n.since+n.story.delay-age, 0).Seconds(), n.story.hint.Seconds()
	}
	if n.state == guarded {
		rep.Guard = n.story.guard
	}
	return rep
}

// report reports whether anything was ever counted.
func (o *operation) report(age time.Duration, at func(time.Duration) time.Time) (rep operationReport, used bool) {
	rep = operationReport{Name: o.name, Other: o.other, Windows: make(map[string]windowReport, len(spans))}
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.last; l.attempt > 0 {
		rep.LastError = &errorReport{at(l.at), l.attempt, l.class.String(), l.text}
	}
	rep.Causes = o.causeReports(age, at)
	for i, s := range spans {
		rep.Windows[s.name] = windowReportOf(o.cells.window(i, age))
	}
	return rep, o.used
}

func windowReportOf(sum counts, history []counts, covered time.Duration) windowReport {
	w := windowReport{
		Seconds:    covered.Seconds(),
		Runs:       sum.runs(),
		FirstTry:   uint64(sum.ended[firstTry]),
		AfterRetry: uint64(sum.ended[afterRetry]),
		Failed:     uint64(sum.ended[failed]),
		Permanent:  uint64(sum.ended[permanent]),
		Canceled:   uint64(sum.ended[canceled]),
		Attempts:   sum.attempts,
		P50:        sum.quantile(.5).Seconds(),
		P99:        sum.quantile(.99).Seconds(),
		Reasons:    map[string]uint64{},
		History:    make([][3]uint64, len(history)),
	}
	for reason, n := range sum.reasons {
		if n > 0 {
			w.Reasons[retry.Reason(reason).String()] += uint64(n)
		}
	}
	few := w.failing() == w.Failed
	for i, c := range history {
		h := [3]uint64{uint64(c.ended[firstTry]), uint64(c.ended[afterRetry]), uint64(c.ended[failed])}
		if few {
			h[0] += uint64(c.ended[permanent])
		} else {
			h[2] += uint64(c.ended[permanent])
		}
		w.History[i] = h
	}
	return w
}

// failing returns how many runs the page calls failed. A permanent error may be one caller's
// mistake. If more than a tenth of an operation's runs end with one, it is an
// outage, of a certificate that has expired or a password that was changed.
func (w windowReport) failing() uint64 {
	if 10*w.Permanent > w.Runs {
		return w.Failed + w.Permanent
	}
	return w.Failed
}

func (s *story) report(at func(time.Duration) time.Time) failedReport {
	rep := failedReport{
		Name: s.op.name, Count: s.count, Time: at(s.at), Reason: s.reason.String(), Attempts: s.attempts,
		Seconds: s.took.Seconds(), Waited: s.waited.Seconds(), Trace: s.trace, Cause: s.cause, Steps: []stepReport{},
	}
	for _, n := range s.steps {
		rep.Steps = append(rep.Steps, stepReport{
			n.number, n.start.Seconds(), n.took.Seconds(), n.class.String(), n.text, n.wait.Seconds(), n.hint.Seconds(), n.guard, n.refused,
		})
	}
	return rep
}
