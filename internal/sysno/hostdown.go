//go:build !plan9 && !wasip1

package sysno

import "syscall"

const hostDown = syscall.EHOSTDOWN
