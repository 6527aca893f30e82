// Package benbjohnson runs retries on a clock of [github.com/benbjohnson/clock], for
// code and tests that already use one. That module is archived. If you have a choice,
// use [testing/synctest] or [clockx.Virtual].
//
//	mock := clock.NewMock()
//	policy := retry.Policy{Clock: benbjohnson.New(mock)}
//	go client.Fetch(ctx, policy)
//	mock.Add(time.Second) // waits of a second or less end
package benbjohnson
