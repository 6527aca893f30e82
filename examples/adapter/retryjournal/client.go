// Package retryjournal repeats calls of a journal's client. It is an adapter as anybody
// can write it, with the public API of package retry alone: docs/adapters.md explains it.
package retryjournal

import (
	"context"
	"errors"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/adapter/journal"
)

// Client appends records to a journal. It is safe for concurrent use. Set the fields
// before the first use.
type Client struct {
	Dial   func(node string) journal.Conn
	Node   string // to ask first
	Policy retry.Policy

	mu   sync.Mutex
	conn journal.Conn
}

// Append appends a record. One that may have been appended is not appended again,
// even without Policy.NonIdempotent. The error is a *[retry.Error].
func (c *Client) Append(ctx context.Context, record string) (number int, err error) {
	a := c.Policy.Attempts(ctx)
	defer a.Close()
	for a.Next() {
		number, err = c.connection("").Append(a.Context(), record)
		again := a.Judged(c.verdict(err))
		if fault, ok := errors.AsType[*journal.Fault](err); again && ok && fault.Code == journal.Moved {
			c.connection(fault.Node) // this dial is part of the wait, which Judged has started
		}
	}
	return number, a.Err()
}

// connection dials the node, or returns the connection in use if node is empty.
func (c *Client) connection(node string) journal.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case node != "":
		c.conn = c.Dial(node)
	case c.conn == nil:
		c.conn = c.Dial(c.Node)
	}
	return c.conn
}

// verdict says what the error of a single call means, which is all that an attempt makes.
func (c *Client) verdict(err error) retry.Verdict {
	p := c.Policy // a copy: the run and its hooks keep the user's policy
	p.Classify = retry.Classifiers(c.Policy.Classify, classify)
	v := p.Judge(err)
	v.Once = err != nil // a record must not be appended twice
	if fault, ok := errors.AsType[*journal.Fault](err); ok && fault.Code == journal.Busy {
		v.Hint, v.Undone = max(v.Hint, fault.Wait), true
	}
	return v
}

// classify knows the codes. Unprocessed is proof that nothing was appended.
func classify(err error) retry.Class {
	fault, ok := errors.AsType[*journal.Fault](err)
	switch {
	case !ok:
		return retry.DefaultClassifier(err) // proof too, since an attempt is one call
	case fault.Code == journal.Moved:
		return retry.Unprocessed
	case fault.Code == journal.Busy:
		return retry.Throttled
	case fault.Code == journal.Timeout:
		return retry.TimedOut
	}
	return retry.Permanent
}
