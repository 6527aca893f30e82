// Package harm has worlds in which nothing is overloaded, and measures there what a limit, a pace,
// a breaker, a hedge or a budget costs calls that would have done well without it.
//
// A [World] is a provider and its callers. It is written from what servers do: they answer slowly
// or in two speeds, refuse or lose a part of the requests at random, have a replica that hangs.
// None of that is for the number of requests, so there is nothing to gain by making fewer or later
// ones. A [Subject] is what may delay, refuse or withhold, and the same client without it. [Measure]
// runs both, and [Figures] say what the subject has cost: see [Figures.Harm] for how much it may.
//
// # Why the figures are exact
//
// Time is that of a testing/synctest bubble. A request's fate (how long its answer takes, which
// replica it meets, whether it fails) is a function of the seed, the call and the number of
// the request within the call, and so is the jitter of a call's waits. So both clients meet the same
// luck: a guard that does nothing gives equal outcomes, call for call, and a call that one of the
// two loses is lost for what the guard did, not by chance. The seeds of a world have at least a hundred calls
// together in their first half minutes, and mostly thousands, so that a point is more than one call. No
// two calls do anything at the same instant, so that no scheduler decides who is first.
package harm
