package sleepinop

import (
	"context"
	"time"

	"github.com/goretry/retry"
)

func try(context.Context) error { return nil }

func wrong(ctx context.Context, p retry.Policy) error {
	return retry.Run(ctx, p, func(ctx context.Context) error {
		err := try(ctx)
		if err != nil {
			time.Sleep(time.Second) // want `the operation sleeps`
		}
		return err
	})
}

func right(ctx context.Context, p retry.Policy) error {
	time.Sleep(time.Second)
	return retry.Run(ctx, p, func(ctx context.Context) error {
		go func() { time.Sleep(time.Second) }()
		return try(ctx)
	})
}
