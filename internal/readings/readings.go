// Package readings reads clocks for comparisons with earlier readings, and says which is the
// system's.
package readings

import (
	"time"

	"github.com/goretry/retry/clockx"
)

var epoch = time.Now()

// System reports whether c is the system's clock, which a nil Policy.Clock means too.
func System(c clockx.Clock) bool { return c == nil || c == clockx.System() }

// Clock returns c, or the system's clock for nil.
func Clock(c clockx.Clock) clockx.Clock {
	if c == nil {
		return clockx.System()
	}
	return c
}

// Of returns what c shows. The system's clock is read monotonically: nobody can set it
// back. Nobody knows what others count from.
func Of(c clockx.Clock) time.Duration {
	if System(c) {
		return time.Since(epoch) // costs half as much as time.Now
	}
	return time.Duration(c.Now().UnixNano())
}
