//go:build !plan9

package retry

import (
	"runtime"
	"slices"
	"syscall"
)

// errno is the type of the system's error numbers.
type errno = syscall.Errno

var posix = []errnoClass{
	{syscall.ECONNREFUSED, Unprocessed},
	{syscall.ENETUNREACH, Unprocessed},
	{syscall.EHOSTUNREACH, Unprocessed},
	{hostDown, Unprocessed},
	{syscall.ENETDOWN, Unprocessed},
	{syscall.EADDRNOTAVAIL, Unprocessed},
	{syscall.ECONNRESET, Transient},
	{syscall.EPIPE, Transient},
	{syscall.ECONNABORTED, Transient},
	{syscall.ETIMEDOUT, TimedOut},
	{syscall.EAGAIN, Transient},
	{syscall.EINTR, Transient},
	{syscall.EMFILE, Throttled},
	{syscall.ENFILE, Throttled},
	{syscall.ENOBUFS, Throttled},
	{syscall.ENOMEM, Throttled},
	{syscall.EACCES, Permanent},
	{syscall.EPERM, Permanent},
	{syscall.EINVAL, Permanent},
	{syscall.EAFNOSUPPORT, Permanent},
	{syscall.EPROTOTYPE, Permanent},
	{syscall.EMSGSIZE, Permanent},
	{syscall.ENOSYS, Permanent},
	{syscall.ENOTSUP, Permanent}, // errors.ErrUnsupported is it, but not on wasip1
}

// passing are Permanent, but for a failed connect: see notYet.
var passing = []errno{syscall.ENOENT, syscall.EPERM}

// winsock are the numbers of Windows Sockets. On Windows the names above have invented
// numbers, which no call returns.
var winsock = []errnoClass{
	{10004, Transient},   // WSAEINTR
	{10013, Permanent},   // WSAEACCES
	{10022, Permanent},   // WSAEINVAL
	{10024, Throttled},   // WSAEMFILE
	{10035, Transient},   // WSAEWOULDBLOCK
	{10040, Permanent},   // WSAEMSGSIZE
	{10041, Permanent},   // WSAEPROTOTYPE
	{10047, Permanent},   // WSAEAFNOSUPPORT
	{10049, Unprocessed}, // WSAEADDRNOTAVAIL
	{10050, Unprocessed}, // WSAENETDOWN
	{10051, Unprocessed}, // WSAENETUNREACH
	{10053, Transient},   // WSAECONNABORTED
	{10054, Transient},   // WSAECONNRESET
	{10055, Throttled},   // WSAENOBUFS
	{10060, TimedOut},    // WSAETIMEDOUT
	{10061, Unprocessed}, // WSAECONNREFUSED
	{10064, Unprocessed}, // WSAEHOSTDOWN
	{10065, Unprocessed}, // WSAEHOSTUNREACH
}

// errnos are the numbers of this system.
var errnos = errnosOf(runtime.GOOS)

func errnosOf(goos string) []errnoClass {
	if goos == "windows" {
		return slices.Concat(posix, winsock)
	}
	return posix
}
