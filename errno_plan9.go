package retry

import "syscall"

// errno is the type of the system's errors, which are texts. A failed connection
// is known by its net.OpError.
type errno = syscall.ErrorString

var passing []errno // there are no sockets in the file system

var errnos = []errnoClass{
	{syscall.ETIMEDOUT.(errno), TimedOut},
	{syscall.EINTR.(errno), Transient},
	{syscall.EMFILE.(errno), Throttled},
	{syscall.EACCES.(errno), Permanent},
	{syscall.EPERM.(errno), Permanent},
	{syscall.EINVAL.(errno), Permanent},
	{syscall.EAFNOSUPPORT.(errno), Permanent},
}
