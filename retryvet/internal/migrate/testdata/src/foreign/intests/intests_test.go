package intests

import (
	"testing"

	"github.com/cenkalti/backoff/v4"
)

// The file that -fix writes must not use this name.
func retry(call func() error) error { return call() }

func TestCall(t *testing.T) {
	if err := backoff.Permanent(retry(call)); err != nil {
		t.Error(err)
	}
}
