// Package retry has the declarations of avast/retry-go v4 that the samples use.
package retry

import (
	"context"
	"time"
)

type RetryableFunc func() error
type RetryableFuncWithData[T any] func() (T, error)
type Option func()
type DelayTypeFunc func(n uint, err error, config *Config) time.Duration
type Error []error

func (Error) Error() string { return "" }

func Attempts(uint) Option                            { return nil }
func UntilSucceeded() Option                          { return nil }
func Delay(time.Duration) Option                      { return nil }
func MaxDelay(time.Duration) Option                   { return nil }
func MaxJitter(time.Duration) Option                  { return nil }
func DelayType(DelayTypeFunc) Option                  { return nil }
func Context(context.Context) Option                  { return nil }
func OnRetry(func(uint, error)) Option                { return nil }
func RetryIf(func(error) bool) Option                 { return nil }
func LastErrorOnly(bool) Option                       { return nil }
func Unrecoverable(err error) error                   { return err }
func BackOffDelay(uint, error, *Config) time.Duration { return 0 }
func FixedDelay(uint, error, *Config) time.Duration   { return 0 }
func RandomDelay(uint, error, *Config) time.Duration  { return 0 }

type Config struct{}

func Do(RetryableFunc, ...Option) error                                      { return nil }
func DoWithData[T any](RetryableFuncWithData[T], ...Option) (t T, err error) { return }
func IsRecoverable(error) bool                                               { return true }
