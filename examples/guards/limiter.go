package guards

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/goretry/retry"
)

// Limiter is a rate limiter: attempts wait for it, retries included. It is on the policy's
// clock. Put it directly before the guards that do not wait: it takes the time of an attempt
// that they refuse back.
type Limiter struct{ *rate.Limiter }

type reservation struct {
	*rate.Reservation
	at time.Time // when the attempt may start
}

func (l Limiter) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	now := e.Clock.Now()
	r := l.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	return retry.Pass{Wait: wait, Held: reservation{r, now.Add(wait)}}, nil
}

func (l Limiter) Leave(p retry.Pass, x retry.Exit) {
	if r := p.Held.(reservation); x.Ending == retry.NotMade {
		now := x.Clock.Now()
		if r.at.Before(now) {
			now = r.at // a nanosecond later it could not be canceled any more
		}
		r.CancelAt(now)
	}
}
