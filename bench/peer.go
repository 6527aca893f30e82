package bench

import (
	"context"
	"errors"
	"time"
)

// Row is what the operation returns: a small typed value of 56 bytes.
type Row struct {
	ID                 int64
	Name, Street, City string
}

// Op is the operation that all libraries call.
type Op = func(context.Context) (Row, error)

// Call is one call through a library, with a context and a value as its user
// wants them, even if the library knows of neither.
type Call func(context.Context, Op) (Row, error)

// Spec is what a policy is to do, in words that all libraries understand.
type Spec struct {
	Attempts int           // in all; 0: no limit
	Wait     time.Duration // before the first retry; 0: no waits
	Max      time.Duration // each wait is twice the one before, up to Max; 0: they are all the same
	Jitter   bool          // spread by a half, or as the library does it
	Virtual  bool          // waits move a clock forward, as in a test
	Tokens   bool          // all calls share a bucket of tokens, which retries take
	Listener func()        // told before each wait
}

// Peer is a library, used the way its documentation says is fastest.
type Peer struct {
	Name   string
	Module string // "" if it is not one

	// New returns calls that follow a spec, with as much made once for all of them
	// as is right. Nil, it cannot do that.
	New func(Spec) Call

	// Shared returns calls that have all of their policy in common, though they
	// must not: Why. Nil, those of New have.
	Shared func(Spec) Call
	Why    string

	// Inline is a call that builds its policy, as code does that has one place to
	// call from: four attempts, waits of 100 ms doubled up to 10 s.
	Inline Call

	Note string // what a reader of its figures must know
}

// The policy of an Inline call.
var inline = Spec{Attempts: 4, Wait: 100 * time.Millisecond, Max: 10 * time.Second}

// Peers are the libraries, the floor first and this one second.
var Peers = []Peer{hand, ours, promises, cenkalti, avast, avastReused, failsafeGo, sethvargo, eapache, retryV1, k8s}

const (
	floor   = 0
	library = 1
)

var (
	errFlaky = errors.New("flaky")
	ada      = Row{1, "Ada", "St James's Square", "London"}
)

//go:noinline
func succeed(context.Context) (Row, error) { return ada, nil }

//go:noinline
func fail(context.Context) (Row, error) { return Row{}, errFlaky }

// failing returns an operation that fails so many times, succeeds, and so on. It
// is not safe for concurrent use.
func failing(times int) Op {
	calls := 0
	return func(context.Context) (Row, error) {
		if calls++; calls%(times+1) != 0 {
			return Row{}, errFlaky
		}
		return ada, nil
	}
}
