package bench

import "time"

// jump is the cheapest clock there is: it moves on when it is waited on. It is
// one goroutine's.
type jump struct {
	now   time.Time
	fired chan time.Time
}

func newJump() *jump {
	c := make(chan time.Time)
	close(c)
	return &jump{now: time.Unix(0, 0), fired: c}
}

func (j *jump) Now() time.Time { return j.now }

func (j *jump) After(d time.Duration) <-chan time.Time {
	j.now = j.now.Add(d)
	return j.fired
}
