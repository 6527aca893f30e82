// Package backoff has the declarations of cenkalti/backoff v5 that the samples use.
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

const DefaultMaxInterval = 60 * time.Second

type ExponentialBackOff struct {
	InitialInterval     time.Duration
	RandomizationFactor float64
	Multiplier          float64
	MaxInterval         time.Duration
}

func NewExponentialBackOff() *ExponentialBackOff { return nil }

type Operation[T any] func() (T, error)
type RetryOption func()

func Retry[T any](context.Context, Operation[T], ...RetryOption) (t T, err error) { return }
func WithBackOff(BackOff) RetryOption                                             { return nil }
func WithMaxTries(uint) RetryOption                                               { return nil }
func WithMaxElapsedTime(time.Duration) RetryOption                                { return nil }
func WithNotify(Notify) RetryOption                                               { return nil }

type RetryAfterError struct{ Duration time.Duration }

func (*RetryAfterError) Error() string { return "" }
func RetryAfter(int) error             { return nil }
