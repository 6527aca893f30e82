// Package retry has the declarations of avast/retry-go v5 that the samples use.
package retry

import (
	"context"
	"time"
)

type RetryableFunc func() error
type RetryableFuncWithData[T any] func() (T, error)
type Option func()
type DelayTypeFunc func(n uint, err error, config DelayContext) time.Duration
type Error []error

func (Error) Error() string { return "" }

func Attempts(uint) Option                                 { return nil }
func UntilSucceeded() Option                               { return nil }
func Delay(time.Duration) Option                           { return nil }
func MaxDelay(time.Duration) Option                        { return nil }
func MaxJitter(time.Duration) Option                       { return nil }
func DelayType(DelayTypeFunc) Option                       { return nil }
func Context(context.Context) Option                       { return nil }
func OnRetry(func(uint, error)) Option                     { return nil }
func RetryIf(func(error) bool) Option                      { return nil }
func LastErrorOnly(bool) Option                            { return nil }
func Unrecoverable(err error) error                        { return err }
func BackOffDelay(uint, error, DelayContext) time.Duration { return 0 }
func FixedDelay(uint, error, DelayContext) time.Duration   { return 0 }
func RandomDelay(uint, error, DelayContext) time.Duration  { return 0 }

type DelayContext interface{}

func FullJitterBackoffDelay(uint, error, DelayContext) time.Duration { return 0 }

type Retrier struct{}

func New(...Option) *Retrier            { return nil }
func (*Retrier) Do(RetryableFunc) error { return nil }

type RetrierWithData[T any] struct{}

func NewWithData[T any](...Option) *RetrierWithData[T]                   { return nil }
func (*RetrierWithData[T]) Do(RetryableFuncWithData[T]) (t T, err error) { return }
func IsRecoverable(error) bool                                           { return true }
