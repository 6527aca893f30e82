//go:build !plan9

package sysno

import (
	"runtime"
	"slices"
	"syscall"

	"github.com/goretry/retry/internal/clienterr"
)

// Number is the type of the system's error numbers.
type Number = syscall.Errno

var posix = []Known{
	{syscall.ECONNREFUSED, clienterr.Unprocessed},
	{syscall.ENETUNREACH, clienterr.Unprocessed},
	{syscall.EHOSTUNREACH, clienterr.Unprocessed},
	{hostDown, clienterr.Unprocessed},
	{syscall.ENETDOWN, clienterr.Unprocessed},
	{syscall.EADDRNOTAVAIL, clienterr.Unprocessed},
	{syscall.ECONNRESET, clienterr.Transient},
	{syscall.EPIPE, clienterr.Transient},
	{syscall.ECONNABORTED, clienterr.Transient},
	{syscall.ETIMEDOUT, clienterr.TimedOut},
	{syscall.EAGAIN, clienterr.Transient},
	{syscall.EINTR, clienterr.Transient},
	{syscall.EMFILE, clienterr.Throttled},
	{syscall.ENFILE, clienterr.Throttled},
	{syscall.ENOBUFS, clienterr.Throttled},
	{syscall.ENOMEM, clienterr.Throttled},
	{syscall.EACCES, clienterr.Permanent},
	{syscall.EPERM, clienterr.Permanent},
	{syscall.EINVAL, clienterr.Permanent},
	{syscall.EAFNOSUPPORT, clienterr.Permanent},
	{syscall.EPROTOTYPE, clienterr.Permanent},
	{syscall.EMSGSIZE, clienterr.Permanent},
	{syscall.ENOSYS, clienterr.Permanent},
	{syscall.ENOTSUP, clienterr.Permanent}, // errors.ErrUnsupported is it, but not on wasip1
}

// others are those which an error is not asked for by its method Is: there are too many.
var others = []Known{
	{syscall.EBUSY, clienterr.Transient},
	{syscall.EDEADLK, clienterr.Transient},
	{syscall.EADDRINUSE, clienterr.Transient}, // of the process before
	{syscall.ENETRESET, clienterr.Transient},
	{syscall.ENOTCONN, clienterr.Transient}, // the peer has closed
	{syscall.ENOSPC, clienterr.Throttled},
	{syscall.ENOLCK, clienterr.Throttled},
	{syscall.EFAULT, clienterr.Permanent},
	{syscall.ENODEV, clienterr.Permanent},
	{syscall.ENOTDIR, clienterr.Permanent},
	{syscall.EISDIR, clienterr.Permanent},
	{syscall.EFBIG, clienterr.Permanent},
	{syscall.EROFS, clienterr.Permanent},
	{syscall.ENAMETOOLONG, clienterr.Permanent},
	{syscall.ELOOP, clienterr.Permanent},
	{syscall.EOVERFLOW, clienterr.Permanent},
	{syscall.EPROTONOSUPPORT, clienterr.Permanent},
	{syscall.EDQUOT, clienterr.Permanent},
	{syscall.ENOTSOCK, clienterr.Permanent},
	{syscall.EDESTADDRREQ, clienterr.Permanent},
	{syscall.ENOPROTOOPT, clienterr.Permanent},
}

// Passing are Permanent, but for a failed connect.
var Passing = []Number{syscall.ENOENT, syscall.EPERM}

// winsock are the numbers of Windows Sockets. On Windows the names above have invented
// numbers, which no call returns.
var winsock = []Known{
	{10004, clienterr.Transient},   // WSAEINTR
	{10013, clienterr.Permanent},   // WSAEACCES
	{10022, clienterr.Permanent},   // WSAEINVAL
	{10024, clienterr.Throttled},   // WSAEMFILE
	{10035, clienterr.Transient},   // WSAEWOULDBLOCK
	{10040, clienterr.Permanent},   // WSAEMSGSIZE
	{10041, clienterr.Permanent},   // WSAEPROTOTYPE
	{10047, clienterr.Permanent},   // WSAEAFNOSUPPORT
	{10049, clienterr.Unprocessed}, // WSAEADDRNOTAVAIL
	{10050, clienterr.Unprocessed}, // WSAENETDOWN
	{10051, clienterr.Unprocessed}, // WSAENETUNREACH
	{10053, clienterr.Transient},   // WSAECONNABORTED
	{10054, clienterr.Transient},   // WSAECONNRESET
	{10055, clienterr.Throttled},   // WSAENOBUFS
	{10060, clienterr.TimedOut},    // WSAETIMEDOUT
	{10061, clienterr.Unprocessed}, // WSAECONNREFUSED
	{10064, clienterr.Unprocessed}, // WSAEHOSTDOWN
	{10065, clienterr.Unprocessed}, // WSAEHOSTUNREACH
}

// Asked are the numbers of this system that an error is asked for by its method Is.
var Asked = of(runtime.GOOS)

var all = slices.Concat(Asked, others)

func of(goos string) []Known {
	if goos == "windows" {
		return slices.Concat(posix, winsock)
	}
	return posix
}
