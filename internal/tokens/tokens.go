// Package tokens writes numbers of a budget's tokens for people.
package tokens

import (
	"math"
	"strconv"
)

// A tenth of a token is as much as anybody wants to know. What costs more than there is must
// not look as if there was enough: a price is rounded up, and what is left is rounded down.

// slack is more than the error of a float that stands for tenths, and less than a millionth
// of a token, the smallest difference.
const slack = 1e-6

// Price returns a price as a text.
func Price(n float64) string { return text(math.Ceil(n*10 - slack)) }

// Left returns what is left as a text.
func Left(n float64) string { return text(math.Floor(n*10 + slack)) }

// Unit returns the unit of a number that Price or Left has returned.
func Unit(n string) string {
	if n == "1" {
		return "token"
	}
	return "tokens"
}

// text shows less than nothing as nothing.
func text(tenths float64) string { return strconv.FormatFloat(max(tenths, 0)/10, 'f', -1, 64) }
