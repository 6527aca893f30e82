package retrydebug

import (
	"cmp"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// mostCauses is how many causes of an operation are distinguished.
const mostCauses = 4

// failure is what an attempt has failed with. Two failures of one class and code whose
// texts differ only in numbers, such as ports, have one key: they are one cause.
type failure struct {
	key   uint64
	class retry.Class
	guard string // that has refused the attempt, "" if the attempt was made
	code  string // "" if there is none
	text  string
}

// keyOf returns the key of a failure. FNV-1a of its parts is enough: should two causes ever
// have one key, they are shown as one.
func keyOf(class retry.Class, guard, code, text string) uint64 {
	h := (uint64(14695981039346656037) ^ uint64(class)) * 1099511628211
	for _, s := range [...]string{guard, "\x00", code[:min(len(code), longest)], "\x00", text[:min(len(text), texts)]} {
		number := false
		for i := range len(s) {
			c := s[i]
			if c >= '0' && c <= '9' {
				if number {
					continue
				}
				number, c = true, '0'
			} else {
				number = false
			}
			h = (h ^ uint64(c)) * 1099511628211
		}
	}
	return h
}

// refused reports whether an attempt did nothing because a guard let it not, of its own run
// or of one within it. That is a consequence of other failures.
func (f *failure) refused() bool {
	return f.guard != "" || f.code == "limit.limited" || f.code == "breaker.open" || f.code == "retry.paced"
}

// tallied is a cause with how many attempts of a second it has made fail.
type tallied struct {
	failure
	at   time.Duration // of the latest
	n    uint32
	runs uint32 // that it has ended; with n 0 only the key is known
}

// cause is what attempts of an operation fail with.
type cause struct {
	failure
	at    time.Duration // of the latest attempt
	cells ring[toll]
}

// toll is what a cause has cost in some time.
type toll struct {
	attempts uint32
	runs     uint32 // that have failed because of the last of their attempts
}

// noteCause adds what was tallied in a second. A cause that there is no room for takes the
// place of the one that was not met for longest.
func (o *operation) noteCause(second int64, t *tallied) {
	i := slices.IndexFunc(o.causes, func(c *cause) bool { return c.key == t.key })
	switch {
	case i >= 0:
	case t.n == 0: // its place was taken since
		return
	case len(o.causes) < mostCauses:
		i = len(o.causes)
		o.causes = append(o.causes, &cause{failure: t.failure})
	default:
		i = 0
		for j, c := range o.causes {
			if c.at < o.causes[i].at {
				i = j
			}
		}
		o.causes[i] = &cause{failure: t.failure}
	}
	c := o.causes[i]
	if t.at >= c.at && t.n > 0 {
		c.at, c.failure = t.at, t.failure
	}
	for _, s := range spans {
		if at := c.cells.begin(s, second/int64(s.second)); at != nil {
			at.attempts += t.n
			at.runs += t.runs
		}
	}
}

// tolls returns how many attempts window i has, and how many runs.
func (c *cause) tolls(i int, age time.Duration) (attempts, runs uint64) {
	s := spans[i]
	newest := int64(age / (s.second * time.Second))
	for j := range s.cells {
		if at := c.cells.at(s, newest-int64(j)); at != nil {
			attempts += uint64(at.attempts)
			runs += uint64(at.runs)
		}
	}
	return attempts, runs
}

type causeReport struct {
	Class    string            `json:"class"`
	Guard    string            `json:"guard,omitempty"`
	Code     string            `json:"code,omitempty"`
	Error    string            `json:"error"`
	Refused  bool              `json:"refused,omitempty"`
	Time     time.Time         `json:"time"`
	Attempts map[string]uint64 `json:"attempts"`
	Runs     map[string]uint64 `json:"runs"`
}

// refusedLast puts what failed before what was refused in consequence.
func refusedLast(a, b *causeReport) int {
	switch {
	case a.Refused == b.Refused:
		return 0
	case a.Refused:
		return 1
	}
	return -1
}

// causeReports returns the causes of o: refusals last, and of each kind the latest first. o
// is locked.
func (o *operation) causeReports(age time.Duration, at func(time.Duration) time.Time) []causeReport {
	reports := []causeReport{}
	for _, c := range o.causes {
		r := causeReport{c.class.String(), c.guard, c.code, c.text, c.refused(), at(c.at), make(map[string]uint64, len(spans)), make(map[string]uint64, len(spans))}
		for i, s := range spans {
			r.Attempts[s.name], r.Runs[s.name] = c.tolls(i, age)
		}
		reports = append(reports, r)
	}
	slices.SortStableFunc(reports, func(a, b causeReport) int {
		return cmp.Or(refusedLast(&a, &b), b.Time.Compare(a.Time), cmp.Compare(a.Error, b.Error))
	})
	return reports
}
