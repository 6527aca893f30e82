package queues

import "errors"

// errNone is what a turn of a gate comes to that no handler has ended, in a retry.Stop.
var errNone = errors.New("no message was handled")
