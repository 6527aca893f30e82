package pacing

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const grace = 250 * time.Millisecond // after its time, in which a slot can still be used

// batch is slots of a store: n of them, the first at a time, each of the others a gap later. Of
// {12:00:00, 100ms, 3} the second unit may start 100 ms after noon: an attempt of size 2 that is next
// starts then.
type batch struct {
	at  time.Time
	gap time.Duration
	n   float64
}

// after returns the time of the slot after n others of b.
func (b *batch) after(n float64) time.Time {
	return b.at.Add(time.Duration(float64(b.gap) * max(n, 0)))
}

// last returns the time of the last slot of b.
func (b *batch) last() time.Time { return b.after(b.n - 1) }

// come returns how many slots of b come until now.
func (b *batch) come(now time.Time) float64 {
	past := now.Sub(b.at)
	switch {
	case past < 0:
		return 0
	case b.gap == 0:
		return b.n
	}
	return min(math.Floor(float64(past)/float64(b.gap))+1, b.n)
}

// slots are those that a process has reserved and not used up, in the order of their times.
type slots []batch

// count returns how many there are.
func (s slots) count() (n float64) {
	for _, b := range s {
		n += b.n
	}
	return n
}

// end returns the time of the last slot, or now if there is none.
func (s slots) end(now time.Time) time.Time {
	for _, b := range s {
		now = later(now, b.last())
	}
	return now
}

// at returns when the n-th slot comes, with which n units have come, if there are as many.
func (s slots) at(n float64) (t time.Time, ok bool) {
	for _, b := range s {
		if n <= b.n+tiny {
			return b.after(math.Ceil(n-tiny) - 1), true
		}
		n -= b.n
	}
	return t, false
}

// add adds slots, after those of the same time.
func (s *slots) add(b batch) {
	i, _ := slices.BinarySearchFunc(*s, b, func(x, b batch) int { return cmp.Or(x.at.Compare(b.at), -1) })
	*s = slices.Insert(*s, i, b)
}

// use takes the first n slots away.
func (s *slots) use(n float64) {
	for len(*s) > 0 && n > tiny {
		b := &(*s)[0]
		if n < b.n-tiny {
			b.at = b.after(n)
			b.n -= n
			return
		}
		n -= b.n
		*s = (*s)[1:]
	}
}

// lapse takes those away whose time is over, but for so many as the next attempt collects.
func (s *slots) lapse(now time.Time, collects float64) {
	over := -collects
	for _, b := range *s {
		come := b.come(now.Add(-grace))
		if come == 0 {
			break
		}
		over += come
	}
	s.use(over)
}

// cut takes the last n slots away, and returns how many of them are yet to come.
func (s *slots) cut(now time.Time, n float64) (unused float64) {
	for len(*s) > 0 && n > tiny {
		b := &(*s)[len(*s)-1]
		part := min(n, b.n)
		if !b.last().Before(now) {
			unused += part
		}
		n -= part
		if b.n -= part; b.n <= tiny {
			*s = (*s)[:len(*s)-1]
		}
	}
	return unused
}

// move has all come later.
func (s slots) move(by time.Duration) {
	for i := range s {
		s[i].at = s[i].at.Add(by)
	}
}
