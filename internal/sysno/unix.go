//go:build unix || windows

package sysno

import (
	"syscall"

	"github.com/goretry/retry/internal/clienterr"
)

// WASI and JavaScript have no names for these.
func init() {
	all = append(all, Known{syscall.ETXTBSY, clienterr.Transient}, Known{syscall.EUSERS, clienterr.Throttled})
}

const hostDown = syscall.EHOSTDOWN
