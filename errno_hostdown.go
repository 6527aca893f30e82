//go:build !plan9 && !wasip1

package retry

import "syscall"

const hostDown = syscall.EHOSTDOWN
