package guards

import (
	"context"
	"io"

	"github.com/goretry/retry"
)

// Open opens a stream. Its guards hold it until it is closed.
func Open(ctx context.Context, policy retry.Policy, dial func(context.Context) (io.ReadCloser, error)) (io.ReadCloser, error) {
	a := policy.Attempts(ctx)
	defer a.Close()
	a.Untimed() // the stream outlives its attempt
	for a.Next() {
		s, err := dial(a.Context())
		if err == nil {
			leave := a.Hold()
			a.Done(nil)
			return &stream{ReadCloser: s, leave: leave}, nil
		}
		a.Done(err)
	}
	return nil, a.Err()
}

type stream struct {
	io.ReadCloser
	leave func(retry.Exit)
}

func (s *stream) Close() error {
	defer s.leave(retry.Exit{Ending: retry.Returned}) // a second call does nothing
	return s.ReadCloser.Close()
}
