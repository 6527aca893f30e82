package retry

import (
	"context"
	"testing"
	"time"
)

// A lock would make all cores wait for each other, though no server throttles anything.
func TestOpenPaceTakesNoLock(t *testing.T) {
	pace := new(Pace)
	pace.mu.Lock()
	defer pace.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		done <- Run(context.Background(), Policy{Pace: pace}, func(context.Context) error { return nil })
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a first try waits for the lock of an open Pace")
	}
}
