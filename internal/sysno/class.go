// Package sysno says what the system's error numbers mean to a retry.
package sysno

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/goretry/retry/internal/clienterr"
)

// Known are numbers of one class.
type Known struct {
	Class   clienterr.Class
	Numbers []Number
}

// Class returns the class of a number, by its list or else by its method Is, which knows the
// numbers that mean "no such file" and the like.
func Class(n Number) clienterr.Class { return classIn(all, n) }

func classIn(all []Known, n Number) clienterr.Class {
	for i := range all {
		if slices.Contains(all[i].Numbers, n) {
			return all[i].Class
		}
	}
	for _, target := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, errors.ErrUnsupported} {
		if n.Is(target) {
			return clienterr.Permanent
		}
	}
	return clienterr.Unknown
}
