//go:build js || wasip1

package sysno

import "syscall"

const hostDown = syscall.EHOSTUNREACH
