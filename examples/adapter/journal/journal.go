// Package journal is a made-up client of a made-up service, as somebody else publishes
// it: it has errors and a manual of its own, and knows nothing of retries.
package journal

import (
	"context"
	"fmt"
	"time"
)

// Code says why the service refused a call.
type Code int

const (
	Moved   Code = iota + 1 // another node leads; nothing was appended
	Busy                    // too many calls; nothing was appended
	Timeout                 // the record may have been appended
	Invalid                 // the record is not valid
)

// Fault is the service's error.
type Fault struct {
	Code Code
	Node string        // the node to ask, if Moved
	Wait time.Duration // before the next call, if Busy
}

// Conn is a connection to one node.
type Conn interface {
	Append(ctx context.Context, record string) (number int, err error)
}

func (f *Fault) Error() string { return fmt.Sprintf("journal: fault %d", f.Code) }
