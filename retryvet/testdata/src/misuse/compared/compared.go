package compared

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/goretry/retry"
)

func op(context.Context) error { return nil }

func wrong(ctx context.Context, p retry.Policy) int {
	err := retry.Run(ctx, p, op)
	if err == io.EOF { // want `err is a \*retry.Error that wraps what the operation returned: use errors.Is`
		return 1
	}
	if _, ok := err.(*fs.PathError); ok { // want `use errors.AsType`
		return 2
	}
	switch err { // want `use errors.Is`
	case nil:
	case io.EOF:
		return 3
	}
	switch e := err.(type) { // want `use errors.AsType`
	case *fs.PathError:
		_ = e
	}
	n, err := retry.Do(ctx, p, func(context.Context) (int, error) { return 1, nil })
	if io.EOF != err { // want `use errors.Is`
		return n
	}
	return 0
}

func right(ctx context.Context, p retry.Policy) error {
	err := retry.Run(ctx, p, op)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	if e, ok := err.(*retry.Error); ok {
		return e.Last()
	}
	if _, ok := err.(interface{ Timeout() bool }); ok {
		return nil
	}
	switch err.(type) {
	case nil, *retry.Error:
		return err
	}
	switch err {
	case nil:
	}
	err = op(ctx)
	if err == io.EOF {
		return nil
	}
	if ctx != nil {
		err = retry.Run(ctx, p, op)
	}
	other := op(ctx)
	if other == io.EOF || err == io.EOF {
		return nil // err may be op's
	}
	return retry.Run(ctx, p, func(ctx context.Context) error {
		err := op(ctx)
		if err == io.EOF {
			return retry.Stop(err)
		}
		return err
	})
}
