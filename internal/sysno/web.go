//go:build js || wasip1

package sysno

import "syscall"

var system []Known

const hostDown = syscall.EHOSTUNREACH
