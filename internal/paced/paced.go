// Package paced has the errors of attempts whose turn comes too late.
package paced

import "time"

// Err is the type of retry.ErrPaced.
type Err struct{}

func (Err) Error() string     { return "retry: its turn would come too late" }
func (Err) ErrorType() string { return "retry.paced" } // the error.type of telemetry
func (Err) SafeToRetry() bool { return true }

// Late is the Err of an attempt that would have to wait for so long. With 0 it has waited for as
// long as it may.
type Late time.Duration

func (d Late) Error() string {
	if d == 0 {
		return "its turn has not come in time"
	}
	return "its turn would come in " + max(time.Duration(d).Round(time.Millisecond), time.Millisecond).String() + ", too late for this call"
}

func (Late) Is(target error) bool        { return target == error(Err{}) }
func (Late) ErrorType() string           { return Err{}.ErrorType() }
func (Late) SafeToRetry() bool           { return true }
func (d Late) RetryAfter() time.Duration { return time.Duration(d) }
