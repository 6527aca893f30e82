// Package loadlab has models of callers and a server, for what limits attempts in flight: worlds
// without an overload, in which a limit can only do harm, and worlds with one.
//
// A [World] is a server and the processes that call it. Each process has a [Limiter] around its
// attempts, and perhaps a retry budget. [Calm] are servers whose answers would be no better for fewer
// requests. [Overloads] and [Others] are servers with a queue, or whose requests share processors, as
// the goroutines of a Go program do. They work on for callers who have left.
//
// The luck of a request is a function of the seed, the call and the attempt, and that of a backoff of
// the seed and the call. So the same calls meet the same luck with and without a limit, and what a
// limit loses in a calm world is for what it did, as long as it refuses nothing: after that calls
// come at other times.
//
// A third of the worlds, by a rule about their names, is kept from who tunes a law: see
// [World.HeldOut].
package loadlab
