// Package shared has calls that share their options, or what makes their backoffs.
package shared

import (
	"time"

	"github.com/avast/retry-go/v4"
)

var (
	maxTries = uint(5)
	rtyAtt   = retry.Attempts(maxTries) // read when the program begins
	rtyDel   = retry.Delay(time.Millisecond * 400)
	rtyErr   = retry.LastErrorOnly(true)
)

// The program may need the call that a variable gets its value from.
var lastOnly = retry.LastErrorOnly(verbose())

func verbose() bool { println("reading the configuration"); return false }

// What everybody may use stays.
var (
	Att = retry.Attempts(4)
	Del = retry.Delay(time.Second)
)

const firstWait = 200 * time.Millisecond

func setTries(n uint) { maxTries = n }
