package guards

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/goretry/retry"
)

// Breaker is a circuit breaker. While it is open, it ends the run.
type Breaker struct {
	*gobreaker.TwoStepCircuitBreaker[any]
}

var errNotMade, errFailed = errors.New("not made"), errors.New("failed")

func NewBreaker(s gobreaker.Settings) Breaker {
	// Nothing else gives a place of a half-open breaker back.
	s.IsExcluded = func(err error) bool { return err == errNotMade }
	return Breaker{gobreaker.NewTwoStepCircuitBreaker[any](s)}
}

func (b Breaker) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	done, err := b.Allow()
	if err != nil {
		return retry.Pass{}, retry.Stop(err)
	}
	return retry.Pass{Held: done}, nil
}

func (b Breaker) Leave(p retry.Pass, x retry.Exit) {
	done, v := p.Held.(func(error)), x.Verdict
	switch {
	case x.Ending == retry.NotMade, x.Ending == retry.Canceled:
		done(errNotMade)
	case x.Ending == retry.Returned && (v.Err == nil || v.Answered || v.Class == retry.Permanent && !v.Refused):
		done(nil) // it has answered, even if by a 404
	default:
		done(errFailed)
	}
}

// PatientBreaker is a Breaker that lets runs wait until it is half-open.
type PatientBreaker struct {
	Breaker
	halfOpen atomic.Pointer[time.Time]
}

func NewPatientBreaker(s gobreaker.Settings) *PatientBreaker {
	b := new(PatientBreaker)
	s.Timeout = cmp.Or(s.Timeout, time.Minute) // gobreaker's default
	s.OnStateChange = func(_ string, _, to gobreaker.State) {
		if to == gobreaker.StateOpen {
			at := time.Now().Add(s.Timeout + 1) // after its Timeout, not at its end
			b.halfOpen.Store(&at)
		}
	}
	b.Breaker = NewBreaker(s)
	return b
}

func (b *PatientBreaker) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	done, err := b.Allow()
	switch {
	case err == gobreaker.ErrOpenState:
		return retry.Pass{}, retry.After(err, time.Until(*b.halfOpen.Load()))
	case err != nil: // half-open, and another attempt tries it: this one waits for the backoff
		return retry.Pass{}, err
	}
	return retry.Pass{Held: done}, nil
}
