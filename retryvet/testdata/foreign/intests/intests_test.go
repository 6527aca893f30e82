package intests

import (
	"testing"

	"github.com/cenkalti/backoff/v4"
)

func TestCall(t *testing.T) {
	if err := backoff.Permanent(call()); err != nil {
		t.Error(err)
	}
}
