package harm_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/harm"
	"github.com/goretry/retry/internal/race"
)

// idle is a guard that does nothing.
type idle struct{}

func (idle) Enter(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, nil }
func (idle) Leave(retry.Pass, retry.Exit)                           {}

// refusing ends one run of so many.
type refusing struct {
	idle
	every int64
	calls atomic.Int64
}

func (g *refusing) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	if g.calls.Add(1)%g.every == 0 {
		return retry.Pass{}, retry.Stop(errors.New("refused"))
	}
	return retry.Pass{}, nil
}

// delaying has each attempt wait.
type delaying struct {
	idle
	d time.Duration
}

func (g delaying) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{Wait: g.d}, nil
}

func world(t *testing.T, id string) harm.World {
	t.Helper()
	for _, w := range harm.Worlds() {
		if w.ID() == id {
			return w
		}
	}
	t.Fatalf("no world %q", id)
	return harm.World{}
}

// The lab finds a guard that harms, and says what it does. It finds nothing where nothing is done.
func TestLab(t *testing.T) {
	for _, tt := range []struct {
		world string
		guard retry.Guard
		want  string
	}{
		{"base: 50 ms, 20/s, 30 s", idle{}, ""},
		{"failures: 20 % resets", idle{}, ""},
		{"base: 50 ms, 20/s, 30 s", &refusing{every: 20}, "lost, early"},
		{"failures: 20 % resets", &refusing{every: 20}, "lost, early"},
		{"base: 50 ms, 20/s, 30 s", &refusing{every: 200}, ""},
		{"deadline: none", &refusing{every: 200}, "lost, early"},
		{"base: 50 ms, 20/s, 30 s", delaying{d: 4 * time.Second}, "p99"},
		{"base: 50 ms, 20/s, 30 s", delaying{d: 2 * time.Second}, ""},
		{"deadline: none", delaying{d: 10 * time.Millisecond}, "p99"},
		{"deadline: 1 s", delaying{d: 90 * time.Millisecond}, ""},
		{"deadline: 1 s", delaying{d: 110 * time.Millisecond}, "p99"},
	} {
		s := harm.Guarded("guard", func(*harm.Process) retry.Guard { return tt.guard })
		f := harm.NewLab(t, true).Measure(world(t, tt.world), s)
		if got := f.Harm(false); got != tt.want {
			t.Errorf("%s, %T: out of bound in %q, want %q: %v", tt.world, tt.guard, got, tt.want, f)
		}
		if _, ok := tt.guard.(idle); ok && f.With != f.Without {
			t.Errorf("%s: a guard that does nothing changes %+v to %+v", tt.world, f.Without, f.With)
		}
	}
}

// A row has the same figures each time.
func TestFiguresAreExact(t *testing.T) {
	if race.Enabled {
		t.Skip("it has the scheduler choose at random")
	}
	worlds := []string{"failures: 20 % 429", "calls: 200 at once after an idle hour", "parts: one of 3 replicas hangs from the start"}
	if os.Getenv("RETRY_LONG") != "1" {
		worlds = worlds[:1]
	}
	lab, other := harm.NewLab(t, true), harm.NewLab(t, true)
	for _, id := range worlds {
		for _, s := range subjects {
			w := world(t, id)
			if first, again := lab.Measure(w, s), other.Measure(w, s); first != again {
				t.Errorf("%s, %s: %v, and the next time %v", id, s.Name, first, again)
			}
		}
	}
}
