package storm

import "github.com/goretry/retry"

// Layers returns the requests that reach a failing server below so many layers
// which all retry with policy p: kⁿ for k attempts in n layers, but k if p's
// Classify is retry.AlreadyRetried.
func Layers(p retry.Policy, depth int) (requests int) {
	var call func(depth int) error
	call = func(depth int) error {
		if depth <= 0 {
			requests++
			return errs[fails]
		}
		for loop := p.Start(epoch); ; {
			if _, ok := loop.Next(epoch, call(depth-1)); !ok {
				return loop.Err()
			}
		}
	}
	_ = call(depth)
	return requests
}
