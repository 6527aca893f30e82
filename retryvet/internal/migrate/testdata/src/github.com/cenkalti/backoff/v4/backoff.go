// Package backoff has the declarations of cenkalti/backoff v4 that the samples use.
package backoff

import (
	"context"
	"time"
)

type BackOff interface {
	NextBackOff() time.Duration
	Reset()
}

type ZeroBackOff struct{}

func (*ZeroBackOff) Reset()                     {}
func (*ZeroBackOff) NextBackOff() time.Duration { return 0 }

type StopBackOff struct{}

func (*StopBackOff) Reset()                     {}
func (*StopBackOff) NextBackOff() time.Duration { return -1 }

type ConstantBackOff struct{ Interval time.Duration }

func (*ConstantBackOff) Reset()                       {}
func (b *ConstantBackOff) NextBackOff() time.Duration { return b.Interval }

func NewConstantBackOff(d time.Duration) *ConstantBackOff { return &ConstantBackOff{d} }

type Notify func(error, time.Duration)

func Permanent(err error) error { return err }

type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return "" }

func (*ExponentialBackOff) Reset()                     {}
func (*ExponentialBackOff) NextBackOff() time.Duration { return 0 }

const (
	DefaultRandomizationFactor = 0.5
	DefaultMultiplier          = 1.5
	DefaultMaxInterval         = 60 * time.Second
	Stop                       = time.Duration(-1)
)

type ExponentialBackOff struct {
	InitialInterval     time.Duration
	RandomizationFactor float64
	Multiplier          float64
	MaxInterval         time.Duration
	MaxElapsedTime      time.Duration
	Stop                time.Duration
	Clock               Clock
}

type Clock interface{ Now() time.Time }

var SystemClock Clock

type ExponentialBackOffOpts func(*ExponentialBackOff)

func NewExponentialBackOff(...ExponentialBackOffOpts) *ExponentialBackOff { return nil }
func WithInitialInterval(time.Duration) ExponentialBackOffOpts            { return nil }
func WithMaxElapsedTime(time.Duration) ExponentialBackOffOpts             { return nil }
func WithClockProvider(Clock) ExponentialBackOffOpts                      { return nil }

type Operation func() error
type OperationWithData[T any] func() (T, error)

type Timer interface{ Stop() }

func Retry(Operation, BackOff) error                               { return nil }
func RetryNotify(Operation, BackOff, Notify) error                 { return nil }
func RetryNotifyWithTimer(Operation, BackOff, Notify, Timer) error { return nil }
func RetryWithData[T any](OperationWithData[T], BackOff) (t T, err error) {
	return
}
func RetryNotifyWithData[T any](OperationWithData[T], BackOff, Notify) (t T, err error) {
	return
}
func WithContext(b BackOff, _ context.Context) BackOff { return b }
func WithMaxRetries(b BackOff, _ uint64) BackOff       { return b }

type Ticker struct{ C <-chan time.Time }

func NewTicker(BackOff) *Ticker { return nil }
