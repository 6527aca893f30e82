package nilmark

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	r "github.com/goretry/retry"
)

var errGone = errors.New("gone")

func wrong() []error {
	var none error = nil
	return []error{
		retry.Stop(nil),                     // want `retry.Stop of nil is nil, which says that all is well: give it an error, such as errors.New\("busy"\)`
		retry.After(nil, time.Second),       // want `retry.After of nil is nil`
		retry.Answer(nil),                   // want `retry.Answer of nil is nil`
		retry.Refuse((nil)),                 // want `retry.Refuse of nil is nil`
		retry.Undone(error(nil)),            // want `retry.Undone of nil is nil`
		retry.Stop(retry.Undone(nil)),       // want `retry.Undone of nil is nil`
		fmt.Errorf("gone: %w", r.Stop(nil)), // want `retry.Stop of nil is nil`
		r.Stop(none),                        // want `retry.Stop of nil is nil`
	}
}

func poll(ctx context.Context, ready func() bool) error {
	return retry.Run(ctx, retry.Policy{}, func(context.Context) error {
		if !ready() {
			return retry.After(nil, 30*time.Second) // want `retry.After of nil is nil`
		}
		return nil
	})
}

func right(err error) []error {
	if retry.Stop(nil) != nil {
		panic("it is an error")
	}
	var found error
	if err != errGone {
		found = err
	}
	return []error{retry.Stop(err), retry.Stop(found), retry.After(errGone, time.Second), retry.Stop((*mine)(nil))}
}

type mine struct{}

func (*mine) Error() string { return "mine" }
