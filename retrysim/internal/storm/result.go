package storm

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// Result is the outcome of the calls to a [Service].
type Result struct {
	Asked     int // calls that clients began
	Sent      int // attempts they made: the load
	Succeeded int
	Ended     map[retry.Reason]int // calls by why they ended, ReasonNone for success; some may still run
	Bucket    time.Duration        // how long each bucket is
	Buckets   []Bucket             // from the start; as long as calls began
	Runs      int                  // that this is the sum of
	Flooded   bool                 // the run was given up: more than 100 attempts per call, and 200 000 besides

	from  time.Duration // when the first call that Quantile counts began
	last  int           // how many buckets there may be
	late  Bucket        // what happened after them, or later than a Duration can tell
	times quantiles
}

// NewResult returns an empty one, of calls that begin within such a time: for those
// who measure a real server.
func NewResult(bucket, duration time.Duration) *Result {
	return &Result{Bucket: bucket, Runs: 1, Ended: map[retry.Reason]int{}, last: int((duration-1)/bucket) + 1}
}

// maxBuckets are a day of the default ones.
const maxBuckets = 24 * 60 * 60 * 10

// Bucket counts what happened in a short time.
type Bucket struct {
	Asked     int // calls that began
	Sent      int // attempts
	Done      int // requests that the server was rid of: worked on, refused or dropped
	Worked    int // those that it worked on
	Wasted    int // of these, the ones whose answer nobody waited for any more
	Succeeded int // calls that ended in success
	Good      int // calls that began here and succeeded, whenever that was
}

// Load returns attempts per call: 1 without retries.
func (r *Result) Load() float64 { return ratio(r.Sent, r.Asked) }

// Success returns the share of the calls that succeeded.
func (r *Result) Success() float64 { return ratio(r.Succeeded, r.Asked) }

// Goodput returns the calls that succeeded between two instants, whenever they
// began, as a share of those that began there.
func (r *Result) Goodput(from, to time.Duration) float64 {
	b := r.Sum(from, to)
	return ratio(b.Succeeded, b.Asked)
}

// Rate returns the attempts per second between two instants, and how many of them
// were retries.
func (r *Result) Rate(from, to time.Duration) (sent, retries float64) {
	b := r.Sum(from, to)
	seconds := max((to-from).Seconds()*float64(r.Runs), 1e-9)
	return float64(b.Sent) / seconds, float64(b.Sent-b.Asked) / seconds
}

// Peak returns the most attempts made within a time as long as span, in a mean
// run.
func (r *Result) Peak(span time.Duration) float64 {
	most := 0
	for i := range r.Buckets {
		at := time.Duration(i) * r.Bucket
		most = max(most, r.Sum(at, at+max(span, r.Bucket)).Sent)
	}
	return float64(most) / float64(r.Runs)
}

// Held returns how many requests were on their way or with the server at an
// instant, in a mean run.
func (r *Result) Held(at time.Duration) float64 {
	b := r.Sum(0, at)
	return float64(b.Sent-b.Done) / float64(r.Runs)
}

// Quantile returns the time within which the share q of the calls had ended, in
// success or not, to a precision of 1 %. One that still runs counts with its time
// so far. Calls before Service.Timed do not count.
func (r *Result) Quantile(q float64) time.Duration { return r.times.at(q) }

// Quantile returns the one of some values that the share q of the others is below.
// It sorts them.
func Quantile[T cmp.Ordered](all []T, q float64) T {
	slices.Sort(all)
	return all[int(math.Round(q*float64(len(all)-1)))]
}

// Recovery returns how long after a disturbance calls succeeded as before it. from is
// when the disturbance started, and to when it ended. The fraction of calls that
// succeed is compared with that in the first half of the time before from. In each
// second from the recovery on it is lower by at most a tenth, or by what chance
// explains. With fewer than 200 calls per second a longer time than a second is
// compared: that of 200 calls, but at most a quarter of the time after to. Zero means
// that calls succeeded as soon as the disturbance was over, or sooner. Recovery
// returns false if they did not by the end.
func (r *Result) Recovery(from, to time.Duration) (after time.Duration, ok bool) {
	before := r.Sum(0, from/2) // later ones may have been caught by it
	known := max(float64(before.Asked), 1)
	fails := float64(before.Asked-before.Good+1) / float64(before.Asked+2) // a few calls without a failure do not show that there is none
	end := time.Duration(len(r.Buckets)) * r.Bucket
	window := max(min(times(from/2, 200/known), (end-to)/4), time.Second)
	window = max(window/r.Bucket*r.Bucket, r.Bucket)
	for at := end - window; at >= from; at -= r.Bucket {
		b := r.Sum(at, at+window)
		n := float64(b.Asked)
		chance := 4 * math.Sqrt(fails*(1-fails)*n*(1+float64(n/known)))
		if float64(b.Good) < float64(.9*(1-fails)*n)-chance {
			if at == end-window {
				return 0, false
			}
			return max(at+r.Bucket-to, 0), true
		}
	}
	return 0, true
}

// Ending says how a disturbance ended.
type Ending uint8

const (
	Recovered Ending = iota // calls succeed as before
	Down                    // they do not, and what the server holds does not get less
	Unclear                 // they do not by the end of the run, which was too short to tell
	Failing                 // most calls failed even before
	Flooded                 // the run was given up, see Result.Flooded
)

// Ending returns how a disturbance ended, which lasted from from to to, and after
// how long if calls have Recovered.
func (r *Result) Ending(from, to time.Duration) (e Ending, after time.Duration) {
	end := time.Duration(len(r.Buckets)) * r.Bucket
	before, quarter := r.Sum(0, from/2), (end-to)/4
	after, recovered := r.Recovery(from, to)
	switch {
	case r.Flooded:
		return Flooded, 0
	case end <= to:
		return Unclear, 0 // nobody has called since
	case 2*before.Good < before.Asked:
		return Failing, 0
	case recovered:
		return Recovered, after
	case r.held(end-quarter, end) > .9*r.held(end-2*quarter, end-quarter):
		return Down, 0
	}
	return Unclear, 0
}

// held returns how many requests are held between two instants, on average: at one
// instant it may be chance.
func (r *Result) held(from, to time.Duration) (mean float64) {
	for i := range 64 {
		mean += r.Held(from+time.Duration(i)*(to-from)/64) / 64
	}
	return mean
}

// End counts the end of a call that began at an instant: in success if reason is
// ReasonNone.
func (r *Result) End(began, now time.Duration, reason retry.Reason) {
	if reason == retry.ReasonNone {
		r.Succeeded++
		r.At(now).Succeeded++
		r.At(began).Good++
	}
	r.time(began, now)
	r.Ended[reason]++
}

// time counts how long a call has taken.
func (r *Result) time(began, now time.Duration) {
	if began >= r.from {
		r.times.add(now - began)
	}
}

// At returns the bucket of an instant, to count in.
func (r *Result) At(t time.Duration) *Bucket {
	i := int(t / r.Bucket)
	if i < 0 || i >= r.last {
		return &r.late
	}
	for len(r.Buckets) <= i {
		r.Buckets = append(r.Buckets, Bucket{})
	}
	return &r.Buckets[i]
}

// Sum adds up the buckets that begin between two instants.
func (r *Result) Sum(from, to time.Duration) (s Bucket) {
	index := func(t time.Duration) int { // rounded up
		t = max(t, 0)
		return min(int(t/r.Bucket+min(t%r.Bucket, 1)), len(r.Buckets))
	}
	for _, b := range r.Buckets[index(from):max(index(from), index(to))] {
		s.add(b)
	}
	return s
}

// Work counts a request that the server worked on.
func (b *Bucket) Work(wasted bool) {
	b.Done++
	b.Worked++
	if wasted {
		b.Wasted++
	}
}

func (b *Bucket) add(c Bucket) {
	b.Asked += c.Asked
	b.Sent += c.Sent
	b.Done += c.Done
	b.Worked += c.Worked
	b.Wasted += c.Wasted
	b.Succeeded += c.Succeeded
	b.Good += c.Good
}

// quantiles counts durations by their leading seven bits, in steps of less than 2 %. It
// reports the middle of a step.
type quantiles struct {
	counts [64 * 64]uint32
	n      int
}

func (q *quantiles) add(d time.Duration) {
	drop := max(bits.Len64(uint64(d))-7, 0)
	q.counts[drop*64+int(d>>drop)]++
	q.n++
}

func (q *quantiles) at(share float64) time.Duration {
	rank := int(math.Ceil(min(share, 1) * float64(q.n)))
	for i, n := range q.counts {
		if rank -= int(n); rank <= 0 && n > 0 {
			drop := max(i/64-1, 0)
			return time.Duration(i-drop*64)<<drop + time.Duration(1)<<drop/2
		}
	}
	return 0
}

// ratio returns a/b, 0 where that is not defined.
func ratio(a, b int) float64 { return float64(a) / max(float64(b), 1) }

// Merge adds up the results of several runs.
func Merge(results []*Result) *Result {
	sum := *results[0]
	sum.Ended, sum.Buckets = maps.Clone(sum.Ended), slices.Clone(sum.Buckets)
	for _, r := range results[1:] {
		sum.Asked += r.Asked
		sum.Sent += r.Sent
		sum.Succeeded += r.Succeeded
		sum.Runs += r.Runs
		for reason, n := range r.Ended {
			sum.Ended[reason] += n
		}
		for i, b := range r.Buckets {
			sum.At(time.Duration(i) * r.Bucket).add(b)
		}
		for i, n := range r.times.counts {
			sum.times.counts[i] += n
		}
		sum.times.n += r.times.n
	}
	return &sum
}
