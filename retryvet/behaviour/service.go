// Package behaviour shows that a call does the same after retryvet -fix as before.
//
//	go test ./retryvet/behaviour
//
// Package before has calls of other libraries, and package after what -fix makes of
// them. The tests write after again and compare it, and run both on the same failing
// service: as many calls, at the same times, in a testing/synctest bubble.
//
// What may live here: samples whose waits have no jitter, and their tests. It is a
// module of its own because it needs the other libraries.
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
