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
	{syscall.ETIMEDOUT.(Number), clienterr.TimedOut},
	{syscall.EINTR.(Number), clienterr.Transient},
	{syscall.EMFILE.(Number), clienterr.Throttled},
	{syscall.EACCES.(Number), clienterr.Permanent},
	{syscall.EPERM.(Number), clienterr.Permanent},
	{syscall.EINVAL.(Number), clienterr.Permanent},
	{syscall.EAFNOSUPPORT.(Number), clienterr.Permanent},
}

var all = Asked
