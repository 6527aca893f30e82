// Package fleetpace is the law by which processes share a quota that a server does not tell:
// where a [State] is kept, what each process reports to it, and what all go by. It has no
// clock, lock or goroutine: a store applies one [Report] after another, and Pace.Share of
// package retry makes them. Packages retryredis and retrynats are stores.
//
// Nobody waits while the server refuses nothing, and nothing is exchanged. The first refusal
// makes all processes count for a second. If four attempts, and an eighth of all, were
// refused, whoever has to wait takes a number, as at a counter: the state has the number up
// to which turns have come, its head, and the last one given, its tail. The head moves at the
// rate. So it is first come, first served, and a process that makes one attempt in a minute
// knows what all others have learned.
package fleetpace
