package testonly

import (
	"testing"

	_ "samples/foreign/marks"
)

func TestCall(t *testing.T) {
	if err := call(); err != nil {
		t.Error(err)
	}
}
