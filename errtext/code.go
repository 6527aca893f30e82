package errtext

import (
	"errors"
	"net"
	"strconv"

	"github.com/goretry/retry"
)

// Code returns a code that a person can act on, or "" if err has none: what a method
// ErrorType in its tree says, an SQLSTATE, no_such_host or the status of HTTP. Of an inner
// run it is that of the last attempt, or of what kept the run from making one. It is a part of err, as long as its methods make it.
// If a method panics, so does Code.
func Code(err error) string {
	if named, ok := errors.AsType[interface {
		error
		ErrorType() string
	}](err); ok {
		if run, ok := named.(*retry.Error); ok {
			if code := Code(toldOf(run)); code != "" { // what an inner run failed with says more than how it ended
				return code
			}
		}
		if name := named.ErrorType(); name != "" {
			return name
		}
	}
	if coded, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok && len(coded.SQLState()) == 5 {
		return coded.SQLState()
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return "no_such_host"
	}
	status := 0
	if coded, ok := errors.AsType[interface {
		error
		StatusCode() int
	}](err); ok {
		status = coded.StatusCode()
	} else if coded, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok {
		status = coded.HTTPStatusCode()
	}
	if status >= 400 && status < 600 {
		return strconv.Itoa(status)
	}
	return ""
}
