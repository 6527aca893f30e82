// Package retry has the declarations of sethvargo/go-retry that the samples use.
package retry

import (
	"context"
	"time"
)

type Backoff interface{ Next() (time.Duration, bool) }

func NewConstant(time.Duration) Backoff                              { return nil }
func Do(context.Context, Backoff, func(context.Context) error) error { return nil }
