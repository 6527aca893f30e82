// Package retrydebug serves a page that shows what retries do in this process: what
// fails and why, what runs or waits now, and how the last runs failed. It is for
// engineers without dashboards, or whose dashboards do not show the current minute.
//
//	var page retrydebug.Recorder
//
//	policy.Hooks = page.Hooks() // beside others: retry.JoinHooks
//	http.Handle("/debug/retry", &page)
//
// The headline says how many runs failed. If guards of the program's own have ended at least
// half of these, it says so of the operation of which most were: "complete: pace.Pace refuses 98%
// of 500 runs in the last minute, the server fails 1%". Lines below it are in the order of the
// runs that were lost. Where less than a twentieth was, a line is not bold.
//
// By Policy.Name the page has counts of the last ten seconds, the last minute and the
// last hour, and of what attempts fail with: class, code and error, those that lost most runs
// first. Attempts that a guard has refused, such as a full limit, are there too, and once more
// below the headline: "limit.Limit refused 312 attempts of pay". They are not counted as
// attempts. The page shows which calls wait now, until when, for which guard, and after which
// error; the budgets, limits, breakers, gates, targets, hedges and paces that it observes; and the last runs that failed, with each attempt, each wait and each guard that held an attempt
// back, one for each error and reason. If no run has ended in the chosen time, the page shows the
// next longer one in which one has, and says so. A URL in the errors of an operation is shown once.
//
// The percentiles p50 and p99 are of whole runs, with their waits, and exact to within a
// factor of 1.5. A first try that succeeds costs one allocation of 112 bytes. After
// 100 000 names, then 440 names of 1 MiB each with equally long errors, a Recorder held
// 5 MiB (go test -run TestMemory -v ./retrydebug).
//
// Recorder.Allow decides who may see the page. By default only requests from this
// machine may. The page shows the texts of errors, and URLs in them without userinfo,
// query and fragment. Importing the package registers nothing.
//
// # JSON
//
// With ?format=json the page is the same data as JSON. Later versions only add fields. Times
// of day are RFC 3339, durations are seconds, and lists are never null. A field with a
// question mark is absent if it is zero.
//
//	now, since, program, host, pid    since is when the Recorder was first used
//	operations[]                      by name
//	  name, live, waiting, guarded?   live counts runs underway; guarded are those waiting for a guard
//	  other?                          true: all further names together
//	  windows                         by 10s, 1m and 1h
//	    seconds                       the time that the counts cover: runs/seconds is a rate
//	    runs                          the sum of the next five
//	    first_try, after_retry, failed, permanent, canceled
//	    attempts, p50, p99
//	    reasons                       runs by reason
//	    history[]                     of each 1 s, 5 s or 1 min, oldest first: first_try, after_retry,
//	                                  failed; permanent is a part of the last if the page calls it failed,
//	                                  else of the first
//	  last_error?                     of the latest attempt that failed
//	    time, attempt, class, error
//	  causes[]                        what attempts fail with, at most four: refusals last, else the latest first
//	    class, code?, error, time     of the latest attempt; code is an SQLSTATE, a status of HTTP, …
//	    refused?                      true: the attempt did nothing, because a guard refused it
//	    guard?                        the type of that guard; absent if it is one of a run within
//	    attempts, runs                how many, by 10s, 1m and 1h, and how many runs ended with it as their last
//	live                              runs underway
//	  total, waiting, guarded?
//	  oldest[]                        at most 100
//	    name, limit?                  without a limit of attempts there is none
//	    attempt                       underway or to come
//	    state                         attempting or waiting
//	    age, for                      of the run, and how long in this state
//	    next_in?, hint?               while waiting; hint is what the server asked for
//	    guard?                        the type of the guard that it waits for
//	    last_error?
//	budgets[], limits[]               by name: balance; in_flight and places. null if the method panicked,
//	                                  or if there is no such number or limit
//	  tokens?, price?                 of a budget that has a method Price: its tokens, and what a retry costs
//	    transient, throttled          after an error of this class
//	    timed_out
//	gates[]                           by name: closed, for how long, 0 if it is open; probe?, how long until the next;
//	                                  error?, what has closed it
//	breakers[]                        by name: open, how long it is until the next attempt, 0 if one may start
//	targets[]                         by name: resting, for how much longer, 0 if it does not
//	hedges[], paces[]                 by name: delay; rate, null while it is open, and wait
//	  quota?, throttled?, seems?      of a pace with a quota: units in a second; the part of the attempts
//	                                  that is throttled; and if that is not what it should be, what the quota seems to be
//	  shared?, alone?                 whether a store gives out its quota, or why not
//	  parts?, worst?[]                of a retry.PerKey: how many, and the five worst of them, by key; the
//	                                  other fields are those of the worst
//	failed[]                          at most 64, latest first
//	  name, reason, attempts, seconds, waited
//	  count                           how many runs ended like this one, which is the last of them
//	  time                            of the end
//	  trace?, cause?                  cause if no attempt was made, or if the budget says what the retry would have cost
//	  steps[]                         what held the run up: the first, and the latest seven
//	    attempt, seconds, class, error
//	    start                         since the run began
//	    wait?, hint?                  the wait that followed, as planned
//	    guard?                        no attempt failed: a guard of this type had the attempt wait,
//	    refused?                      or refused it, so many times in a row
//
// In a window, failed counts all reasons but permanent errors and cancels. The page calls those
// with a permanent error failed too if they are more than a tenth of an operation's runs: then it
// is not what some callers ask for, but an expired certificate, say. after_retry
// counts successes, and deliveries of a queue that failed and will be made again. A value
// that retry.Until did not accept is not a failed attempt. A run whose first attempt ended
// with a permanent error is not in the list failed, because it may be one caller's mistake. Half of the
// entries there are reserved for runs with retries. Errors of one class and code whose texts
// differ only in numbers are one cause. Runs of one name that ended for the same reason after
// the same cause are one entry. If an operation fails with more than four causes, a new one
// replaces the one that was not met for longest, with its counts.
package retrydebug
