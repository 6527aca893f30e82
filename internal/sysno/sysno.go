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
	{clienterr.Unprocessed, []Number{syscall.ECONNREFUSED, syscall.ENETUNREACH, syscall.EHOSTUNREACH, hostDown, syscall.ENETDOWN, syscall.EADDRNOTAVAIL}},
	{clienterr.Transient, []Number{syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED}},
	{clienterr.TimedOut, []Number{syscall.ETIMEDOUT}},
	{clienterr.Transient, []Number{syscall.EAGAIN, syscall.EINTR}},
	{clienterr.Throttled, []Number{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}},
	{clienterr.Permanent, []Number{syscall.EACCES, syscall.EPERM, syscall.EINVAL, syscall.EAFNOSUPPORT, syscall.EPROTOTYPE, syscall.EMSGSIZE, syscall.ENOSYS,
		syscall.ENOTSUP}}, // errors.ErrUnsupported is it, but not on wasip1
}

// others are those which an error is not asked for by its method Is: there are too many.
var others = []Known{
	{clienterr.Transient, []Number{syscall.EBUSY, syscall.EDEADLK,
		syscall.EADDRINUSE,                    // of the process before
		syscall.ENETRESET, syscall.ENOTCONN}}, // the peer has closed
	{clienterr.Throttled, []Number{syscall.ENOSPC, syscall.ENOLCK}},
	{clienterr.Permanent, []Number{syscall.EFAULT, syscall.ENODEV, syscall.ENOTDIR, syscall.EISDIR, syscall.EFBIG, syscall.EROFS, syscall.ENAMETOOLONG, syscall.ELOOP,
		syscall.EOVERFLOW, syscall.EPROTONOSUPPORT, syscall.EDQUOT, syscall.ENOTSOCK, syscall.EDESTADDRREQ, syscall.ENOPROTOOPT}},
}

// Passing are Permanent, but for a failed connect.
var Passing = []Number{syscall.ENOENT, syscall.EPERM}

// winsock are the numbers of Windows Sockets. On Windows the names above have invented
// numbers, which no call returns.
var winsock = []Known{
	{clienterr.Transient, []Number{10004, 10035, 10053, 10054}},                 // interrupted, would block, aborted, reset
	{clienterr.Permanent, []Number{10013, 10022, 10040, 10041, 10047}},          // access, argument, size, type, family
	{clienterr.Throttled, []Number{10024, 10055}},                               // sockets, buffers
	{clienterr.Unprocessed, []Number{10049, 10050, 10051, 10061, 10064, 10065}}, // no address, network down, unreachable, refused, host down, unreachable
	{clienterr.TimedOut, []Number{10060}},
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
