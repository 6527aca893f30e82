package sysno

import (
	"syscall"

	"github.com/goretry/retry/internal/clienterr"
)

// Number is the type of the system's errors, which are texts. A failed connection
// is known by its net.OpError.
type Number = syscall.ErrorString

// Passing is empty: there are no sockets in the file system.
var Passing []Number

// Asked are the errors of this system.
var Asked = []Known{
	{clienterr.TimedOut, []Number{syscall.ETIMEDOUT.(Number)}},
	{clienterr.Transient, []Number{syscall.EINTR.(Number)}},
	{clienterr.Throttled, []Number{syscall.EMFILE.(Number)}},
	{clienterr.Permanent, []Number{syscall.EACCES.(Number), syscall.EPERM.(Number), syscall.EINVAL.(Number), syscall.EAFNOSUPPORT.(Number)}},
}

var all = Asked
