package behaviour

import (
	"errors"
	"time"
)

// ErrDown and ErrGone are the errors of a Service.
var (
	ErrDown = errors.New("server is down")
	ErrGone = errors.New("no such user")
)

// A Service fails with Errs, one after the other, and then works. It notes when it
// was called, and what it was told.
type Service struct {
	Errs  []error
	Calls []time.Time
	Told  []string
}

// Get is one call.
func (s *Service) Get() (string, error) {
	n := len(s.Calls)
	s.Calls = append(s.Calls, time.Now())
	if n < len(s.Errs) {
		return "", s.Errs[n]
	}
	return "ada", nil
}

// Ping is a call without a value.
func (s *Service) Ping() error {
	_, err := s.Get()
	return err
}
