// Package sharedmarks has calls whose marks somebody else makes.
package sharedmarks

import "github.com/avast/retry-go/v4"

// Tries may be set before the first call, which changes nothing.
var Tries = uint(3)

var atStart = retry.Attempts(Tries)

var policyOptions = []retry.Option{retry.Attempts(4), retry.LastErrorOnly(true)}
