// Package readings reads clocks for comparisons with earlier readings.
package readings

import (
	"time"

	"github.com/goretry/retry/clockx"
)

var epoch = time.Now()

// Of returns what c shows. The system's clock, which a nil one means here, is read
// monotonically: nobody can set it back. Nobody knows what others count from.
func Of(c clockx.Clock) time.Duration {
	if c == nil || c == clockx.System() {
		return time.Since(epoch) // costs half as much as time.Now
	}
	return time.Duration(c.Now().UnixNano())
}
