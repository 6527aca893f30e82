// Package hint reads how long a server asks to wait: Parse from the headers of a failure, Wait from
// a field of an error, JSON from a number in a body. ShouldRetry reads whether it wants a retry at
// all, and ParseLimits and ParseQuota read what it says of a limit, also with a success.
//
// It does not import net/http, so that package retry can use it: linking net/http would more
// than double a small program.
package hint
