package main

import (
	"bytes"
	"testing"
)

// TestRun is the smoke test: the program as it is, on SQLite. It fails if the sum
// changes, if a transfer is lost with retries, and if none is lost without.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, ""); err != nil {
		t.Errorf("run: %v\n%s", err, out.String())
	}
	for _, want := range []string{"SQLite: 4 accounts, 4000 in all", "transfers done", "why they were repeated\n"} {
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("no %q in the output:\n%s", want, out.String())
		}
	}
}
