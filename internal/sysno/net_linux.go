package sysno

import (
	"syscall"

	"github.com/goretry/retry/internal/clienterr"
)

// Other systems have no names for these.
var linux = []Known{
	{syscall.ENONET, clienterr.Transient},
	{syscall.ECOMM, clienterr.Transient},
}
