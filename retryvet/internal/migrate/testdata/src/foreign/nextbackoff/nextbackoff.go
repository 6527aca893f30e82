package nextbackoff

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

func ping() error { return nil }

func loop() {
	b := backoff.NewExponentialBackOff()
	for ping() != nil {
		time.Sleep(b.NextBackOff()) // want `not rewritten: it is in a loop written by hand: let Policy.Attempts wait or, if something else waits, get the waits from Next of a retry.Loop`
	}
}

type consumer struct{ waits backoff.BackOff }

func (c *consumer) comeBack() time.Duration {
	return c.waits.NextBackOff() // want `not rewritten: its waits are taken one by one: get them from Next of a retry.Loop`
}

// A backoff made of another.
type longer struct{ backoff.BackOff }

func (l longer) NextBackOff() time.Duration { return 2 * l.BackOff.NextBackOff() }

func calls() {
	_ = backoff.Retry(ping, backoff.NewExponentialBackOff()) // want `-fix makes this a retry.Run`
	_ = backoff.Retry(ping, longer{})                        // want `not rewritten: the backoff is made elsewhere`
}
