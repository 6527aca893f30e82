package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, 1_000_000, 300_000); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "1000000 bytes in 4 requests and ") {
		t.Errorf("it said %q", out.String())
	}
	out.Reset()
	if err := run(t.Context(), &out, 0, 1); err != nil || !strings.HasPrefix(out.String(), "0 bytes in 1 requests") {
		t.Errorf("an empty file: %q, %v", out.String(), err)
	}
	if err := run(t.Context(), &out, 10, 0); err == nil {
		t.Error("a connection that gives nothing gave all")
	}
}
