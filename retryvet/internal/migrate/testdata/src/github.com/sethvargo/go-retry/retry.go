// Package retry has the declarations of sethvargo/go-retry that the samples use.
package retry

import (
	"context"
	"time"
)

type (
	Backoff               interface{ Next() (time.Duration, bool) }
	RetryFunc             func(context.Context) error
	RetryFuncValue[T any] func(context.Context) (T, error)
)

func NewConstant(time.Duration) Backoff                        { return nil }
func NewExponential(time.Duration) Backoff                     { return nil }
func NewFibonacci(time.Duration) Backoff                       { return nil }
func WithMaxRetries(uint64, Backoff) Backoff                   { return nil }
func WithMaxDuration(time.Duration, Backoff) Backoff           { return nil }
func WithCappedDuration(time.Duration, Backoff) Backoff        { return nil }
func WithJitter(time.Duration, Backoff) Backoff                { return nil }
func WithJitterPercent(uint64, Backoff) Backoff                { return nil }
func WithFullJitter(Backoff) Backoff                           { return nil }
func RetryableError(error) error                               { return nil }
func Do(context.Context, Backoff, RetryFunc) error             { return nil }
func Constant(context.Context, time.Duration, RetryFunc) error { return nil }

func DoValue[T any](context.Context, Backoff, RetryFuncValue[T]) (v T, err error) { return }
