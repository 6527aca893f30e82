package sysno

import (
	"syscall"

	"github.com/goretry/retry/internal/clienterr"
)

// Other systems have no names for these.
func init() {
	all = append(all, Known{clienterr.Transient, []Number{syscall.ENONET, syscall.ECOMM}})
}
