package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// The services that the program starts are this binary.
func TestMain(m *testing.M) {
	if !actAsChild() {
		os.Exit(m.Run())
	}
}

func TestNoPaymentIsLost(t *testing.T) {
	if _, _, err := installed(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI must test it: %v", err)
		}
		t.Skip(err)
	}
	var out bytes.Buffer
	if err := run(&out, 6*time.Second, 40, []string{"kill", "restart", "freeze", "away"}); err != nil {
		t.Errorf("run() = %v", err)
	}
	for _, want := range []string{"a ledger is killed\n", "PostgreSQL is restarted\n", "a ledger freezes\n", "0 that shops were told of lost", "100000000 in all accounts, 0 accounts differ"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out.String())
	}
}
