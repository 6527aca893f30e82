//go:build unix || windows

package sysno

import (
	"syscall"

	"github.com/goretry/retry/internal/clienterr"
)

// WASI and JavaScript have no names for these.
func init() {
	all = append(all, Known{clienterr.Transient, []Number{syscall.ETXTBSY}}, Known{clienterr.Throttled, []Number{syscall.EUSERS}})
}

const hostDown = syscall.EHOSTDOWN
