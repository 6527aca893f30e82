// Package limit limits the attempts in flight to one dependency: a [Limit] to a number that you state,
// and an [Adaptive] to what the dependency can do while it is overloaded.
//
// A Limit harms who states less than one process has in flight at its peak. An Adaptive guesses. If a
// dependency becomes so slow that attempts time out, for another reason than the load, half of its calls
// are refused and then more, for about five times as long as an attempt has: until it is clear that this
// does not help. And a process that shares an overloaded server with many others, which takes requests
// in no order, sees no effect of its own limit, and lets go. docs/overload.md has figures and commands.
package limit
