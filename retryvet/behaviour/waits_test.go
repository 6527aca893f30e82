package behaviour_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryvet/behaviour"
	"github.com/goretry/retry/retryvet/behaviour/after"
	"github.com/goretry/retry/retryvet/behaviour/before"
)

// busy is an error that asks for a wait.
type busy time.Duration

func (busy) Error() string               { return "busy" }
func (b busy) RetryAfter() time.Duration { return time.Duration(b) }

// A call that -fix has rewritten obeys the waits that errors ask for: the line that it prints
// says so, and what to do. This is what the line means.
func TestWaitsThatErrorsAskFor(t *testing.T) {
	quiet := func(err error) error { return errors.New(err.Error()) } // without a method RetryAfter
	for name, c := range map[string]struct{ before, after call }{
		"Backoff4Constant": {before.Backoff4Constant, after.Backoff4Constant},
		"Backoff4Method":   {before.Backoff4Method, after.Backoff4Method},
		"Backoff7":         {before.Backoff7, after.Backoff7},
		"Avast4Doubling":   {before.Avast4Doubling, after.Avast4Doubling},
		"Avast4RetryIf":    {before.Avast4RetryIf, after.Avast4RetryIf},
		"Avast5Fixed":      {before.Avast5Fixed, after.Avast5Fixed},
	} {
		t.Run(name, func(t *testing.T) {
			asks, without := slices.Repeat([]error{busy(time.Minute)}, 2), slices.Repeat([]error{quiet(busy(0))}, 2)
			usual := waits(t, c.before, without)
			if got := waits(t, c.before, asks); !slices.Equal(got, usual) {
				t.Errorf("the old library waits for %v, want %v: it obeys, too", got, usual)
			}
			if got := waits(t, c.after, without); !slices.Equal(got, usual) {
				t.Errorf("without a method RetryAfter it waits for %v, want %v", got, usual)
			}
			got := waits(t, c.after, asks)
			if len(got) != len(usual) {
				t.Fatalf("%d waits, want %d", len(got), len(usual))
			}
			for i, wait := range got {
				if least, most := time.Minute+usual[i], time.Minute+max(usual[i], 6*time.Second); wait < least || wait > most {
					t.Errorf("wait %d takes %v, want %v to %v: what the error asks for and the backoff, or a tenth of it", i+1, wait, least, most)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				s := &behaviour.Service{Errs: []error{busy(10 * time.Minute)}}
				err := c.after(t.Context(), s)
				if e, ok := errors.AsType[*retry.Error](err); !ok || e.Reason != retry.ReasonRetryAfter || len(s.Calls) != 1 {
					t.Errorf("an error that asks for more than MaxRetryAfter: %d calls, and %v", len(s.Calls), err)
				}
			})
		})
	}
}

// waits returns the times between the calls of the service.
func waits(t *testing.T, f call, errs []error) (all []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := &behaviour.Service{Errs: errs}
		if err := f(t.Context(), s); err != nil {
			t.Errorf("%v", err)
		}
		for i := 1; i < len(s.Calls); i++ {
			all = append(all, s.Calls[i].Sub(s.Calls[i-1]))
		}
	})
	return all
}
