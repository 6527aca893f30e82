package sysno

import "syscall"

// WASI has no name for a host that is down.
const hostDown = syscall.EHOSTUNREACH
