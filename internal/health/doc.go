// Package health decides when to stop calling what is down, when to try it, and how to come
// back, for package pace (a hold), breaker, retryqueue (a gate) and failover (a target's rest).
// It has no clock, no lock and no source of randomness: it is given times, and waits.
// Attempts are numbered in the order of their starts, so that late ones are known.
//
// # States
//
// They follow from the successes that a [Health] still needs, the time when its wait ends, and the attempts in flight:
//
//	well     no success is needed: any number of attempts may start
//	closed   none has passed since it closed
//	  waits    its wait has not ended: none may start
//	  tries    one may, and is on probation while it is in flight; if that hangs, one more
//	ramp     some have passed, and more are needed: one and one for each success may be in flight
//
// # Events
//
//	           an attempt starts       passes                  fails                       says nothing
//	well       –                       evidence                evidence: enough closes it  –
//	waits      is not asked to, but    opens it: to the ramp,  known; a longer hint        –
//	           is on probation too     or well                 lengthens the wait
//	tries      is on probation         opens it                the next wait, which is     the next may start,
//	                                                           longer by Rule.Wait         or after its Hint
//	tries, it  counts those in flight  opens it                as in tries                 as in tries
//	hangs      as failed
//	ramp       counts as in flight     evidence; the last      evidence, or at once if     –
//	                                   success makes it well   Strict: the next wait
//
// [Broken] needs no evidence. Hold closes it for a time, or makes it well.
//
// # Late answers
//
// What has begun before the latest closing says nothing when it passes, and what has begun before
// the latest closing, opening or hang says nothing when it fails: the outage may have ended, or
// begun, since. But a hint that comes while it is closed is obeyed, and a success that comes while
// it is well counts: neither closes anything.
//
// An attempt that hangs has failed, as far as waits are concerned. If it passes in the end, it
// opens as any other.
//
// # What differs
//
//	          evidence  wait                   hang        ramp  a failure on the ramp
//	pace      Row       Hold                   2s          –     –
//	breaker   Share     1s to 1m, ±20 %        wait+next   –     –
//	gate      Score     Gate.Probe, or a       next        10    is evidence
//	                    longer hint
//	failover  Row{3}    Set.Rest               wait        10    closes it
//
// A throttled attempt takes no two seconds, and one that is let through may take minutes. A
// breaker waits after an attempt that hangs as after any that fails. A gate's probes come at the
// intervals of its Probe, also if they hang. A target's attempt that hangs keeps others away as
// long as its rest was, and not longer. A gate must not close because half of the calls fail, even
// after an outage. A target's calls can be made elsewhere.
package health
