package shared

import (
	"context"
	"errors"
	"log"

	"github.com/avast/retry-go/v4"
)

var errNotYet = errors.New("not yet")

func query(ctx context.Context) error { return ctx.Err() }

func first(ctx context.Context) error {
	return retry.Do(func() error { return query(ctx) }, retry.Context(ctx), rtyAtt, rtyDel, rtyErr) // want `-fix makes this a retry.Run; .*; its policy is rtyPolicy$`
}

func second(ctx context.Context) error {
	return retry.Do(func() error { return query(ctx) }, rtyDel, retry.Context(ctx), rtyAtt, retry.OnRetry(func(n uint, err error) { // want `-fix makes this a retry.Run; .*; its policy is rtyPolicy$`
		log.Printf("attempt %d of %d: %v", n+1, maxTries, err)
	}))
}

func third(ctx context.Context) error {
	return retry.Do(func() error { return errNotYet }, retry.Context(ctx), Att, Del, lastOnly) // want `-fix makes this a retry.Run; .*; nothing in its package uses these any more: lastOnly, Att, Del$`
}
