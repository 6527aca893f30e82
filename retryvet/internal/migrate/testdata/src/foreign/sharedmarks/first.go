package sharedmarks

import "github.com/avast/retry-go/v4"

type client struct{ get func() error }

func (a *client) getter() func() error { return a.get }

// The receiver has the name that a hook's attempt gets elsewhere.
func (a *client) first() error {
	return retry.Do(func() error { return a.get() }, atStart) // want `-fix makes this a retry.Run; .*; its policy is atStartPolicy$`
}

func (a *client) second() error {
	return retry.Do(a.getter(), retry.OnRetry(func(n uint, err error) { println(n, err) })) // want `not rewritten: its operation is made by a call: a.getter`
}

func (a *client) third() error {
	return retry.Do(func() error { return a.get() }, retry.OnRetry(func(n uint, err error) { println(n, err) })) // want `-fix makes this a retry.Run; OnRetry`
}
