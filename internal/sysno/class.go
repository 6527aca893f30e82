// Package sysno says what the system's error numbers mean to a retry.
package sysno

import (
	"errors"
	"io/fs"

	"github.com/goretry/retry/internal/clienterr"
)

// Known is a number and its class.
type Known struct {
	Number Number
	Class  clienterr.Class
}

// Class returns the class of a number, by its list or else by its method Is, which knows the
// numbers that mean "no such file" and the like.
func Class(n Number) clienterr.Class { return classIn(all, n) }

func classIn(all []Known, n Number) clienterr.Class {
	for _, k := range all {
		if k.Number == n {
			return k.Class
		}
	}
	for _, target := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, errors.ErrUnsupported} {
		if n.Is(target) {
			return clienterr.Permanent
		}
	}
	return clienterr.Unknown
}
