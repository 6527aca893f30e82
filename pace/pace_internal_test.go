package pace

import (
	"context"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// A lock would make all cores wait for each other, though no server throttles anything.
func TestOpenPaceTakesNoLock(t *testing.T) {
	pace := new(Pace)
	pace.mu.Lock()
	defer pace.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		done <- retry.Run(context.Background(), retry.Policy{Guards: []retry.Guard{pace}}, func(context.Context) error { return nil })
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

// An attempt may become the first of the queue after it saw that it is not, and before
// it waits to hear of it.
func TestWhoBecomesTheFirstHearsOfItLater(t *testing.T) {
	pace := new(Pace)
	pace.Hold(time.Minute)
	entry := retry.Entry{Number: 1, Patience: time.Hour, Clock: clockx.System()}
	first, _ := pace.Enter(t.Context(), entry)
	second, _ := pace.Enter(t.Context(), entry)
	pace.Leave(first, retry.Exit{Clock: entry.Clock})
	select {
	case <-second.Wake:
	default:
		t.Error("it does not")
	}
}
