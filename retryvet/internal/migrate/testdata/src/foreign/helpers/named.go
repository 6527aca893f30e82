package helpers

import (
	"database/sql"
	"time"

	"github.com/cenkalti/backoff/v4"
)

type pinger interface{ Ping() error }

type store struct {
	db   *sql.DB
	load func() error
}

func ready(db *sql.DB) error {
	return backoff.Retry(db.Ping, backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 3)) // want `-fix makes this a retry.Run; Classify repeats every error, as before: delete it`
}

func reached(p pinger) error {
	return backoff.Retry(p.Ping, backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 3)) // want `-fix makes this a retry.Run; Classify repeats every error that Permanent has not marked, as before; waits that errors ask for are obeyed now: to ignore them return an error without a method RetryAfter$`
}

func (s *store) ready() error {
	return backoff.Retry(s.db.Ping, backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 3)) // want `-fix makes this a retry.Run; s.db.Ping is now read before each attempt: it was read once; Classify`
}

func (s *store) loaded() error {
	return backoff.Retry(s.load, backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 3)) // want `-fix makes this a retry.Run; s.load is now read before each attempt: it was read once; Classify`
}
