// Package migrate rewrites calls of other retry libraries with package retry.
//
// [Analyzer] is an analysis pass as go vet and gopls run them. It reports the calls of
// cenkalti/backoff, avast/retry-go, sethvargo/go-retry and hashicorp/go-retryablehttp.
// Calls of the first two, from version 4 on, and of the third have a fix if everything
// about the call is understood.
//
// A rewritten call retries the same errors as before. The old libraries retry every
// error that is not marked, so its policy has a Classify, unless every error of the
// operation is Transient anyway. Marks in the operation become retry.Stop. If other
// code may make marks, Classify recognizes those of the old library, whose import
// stays. sethvargo/go-retry retries marked errors only: what is not marked gets
// retry.Stop. Each call is judged by itself, so one that is refused does not prevent
// another rewrite. What calls shared before, such as the function that made their
// backoffs, becomes a policy that they share.
//
// # What changes
//
// An operation may return a mark that is made elsewhere: by another function of the
// package, by a package that imports the old library, or by a function value, an
// interface's method or another module's method. Then Classify returns Permanent for the
// old mark. Classify is left out if the operation visibly returns only errors of
// errors.New and of fmt.Errorf without %w. If several calls of a package need the same
// one, or the same RetryIf, it is declared once, in the first file that needs it.
//
// No Classify can find a mark of sethvargo/go-retry, whose type has no exported name: if
// an error that the operation does not mark may have been marked elsewhere, or the operation
// is not in the call, the call stays as it is. The same holds for WithMaxDuration, which
// cuts the last wait short for one more call, and for an error that the caller compares or
// asserts. The finding of such a call has the new call, and what the user has to judge.
//
// Several calls may get their backoff from one function of the package, or their options
// from variables of the package. The policy is then declared there, once. It is a
// function if the old function reads variables, which may change between calls. A call
// that adds OnRetry or a notify function runs withWait(policy, …), which is declared
// beside it. Functions and variables that nothing uses any more are deleted. Exported ones
// stay, those that tests name, and variables whose value comes from a call of anything
// else; the fix names them. Other packages may use the exported ones, but what they set
// there has no effect on the rewritten calls.
//
// A comment on an option, in a function that made the backoff, or on a field that is
// deleted moves to the policy's field that takes its place. An editor that applies the fix
// of one call gets the edits of all calls in the file, and of the files with which these
// share a declaration. Imports that nothing uses then are removed by -fix, or by the
// editor when it organizes imports.
//
// The text of a finding says which of these hold for its call:
//
//   - Waits at the cap of cenkalti/backoff may be shorter: its jitter exceeds the cap.
//   - A call without a context gets that of its function.
//   - OnRetry is no longer called for the last failure.
//   - After LastErrorOnly the error is a *retry.Error, whose method Last returns the last, or
//     why no attempt was made.
//   - Waits at the MaxDelay of avast/retry-go are spread below it. There they are cut to it
//     after the jitter.
//   - After a failure, Do returns the last attempt's value. avast/retry-go and
//     sethvargo/go-retry return none.
//   - The error of a helper that is passed its operation is a *retry.Error. This holds for
//     all calls, but nobody sees it in the helper's callers.
//   - A wait that an error asks for is obeyed, and the backoff added to it. Of the old
//     libraries only cenkalti/backoff from v5 on obeys one, that of its own RetryAfter.
//   - An operation such as s.db.Ping, or a field, is read before each attempt: it was read
//     once.
//   - A variable that is zero means the default if it is the first or longest wait.
//
// # What is understood
//
//   - operations that are literals, local literals, functions, methods or fields, and those
//     that a helper is passed: its body is rewritten, and its signature and its callers
//     stay as they are;
//   - options in the call, in a local slice that is only spread, or in variables of the
//     package;
//   - a backoff made in the call, in a local variable that nothing else uses, in a variable
//     of the package that only such calls use, or by a function of the package that makes
//     it, sets its fields and returns it;
//   - an ExponentialBackOff literal that sets all fields a run needs;
//   - durations and limits that are constants, or variables, parameters and fields that keep
//     their values. If zero means no limit in the old library, the new code has
//     cmp.Or(n, retry.Unlimited);
//   - RetryIf, which becomes Classify;
//   - an operation that derives a context of the same name for each attempt.
//
// Other calls stay as they are, and the rest of their file is still rewritten:
//
//   - calls in generated files;
//   - a backoff or options made by another package, or passed in, and a backoff that
//     several calls use;
//   - a context, a wait or a hook that is written before the call, if its variables change
//     meanwhile or their names mean something else there;
//   - clocks and timers;
//   - an operation that a call makes, that sleeps, or that uses another context;
//   - options without a counterpart of the same meaning;
//   - sethvargo's NewFibonacci, unless its waits are known and at most eight, which become a
//     Schedule;
//   - RetryAfter and the like in the operation, or PermanentError where the call's error
//     may come: the finding says what to write for each name;
//   - a run that nothing would end, or a call within another retry.
//
// Of hashicorp/go-retryablehttp, NewClient, Get, Head, Post and PostForm are reported, and
// for a NewClient whose fields are set beside it the client to write instead.
//
// # To add a library
//
// Write one file, named after it, and add its family to the list in migrate.go. Read
// sethvargo.go first. The file has
//
//   - a family: the import path, and what is known of each version. The fields of
//     library (call.go) say which functions run something, what marks an error, and
//     which of its options become which field of a policy;
//   - a read function. It fills in a foreignCall (call.go): what the call calls, how it
//     waits, when it stops, what it repeats and what it reports. Or it says why the call
//     cannot be rewritten. No other file is told what the library's functions mean.
//
// What reads a duration, a number, a context, a hook or a function that makes a backoff is
// in values.go, callbacks.go and making.go. A stub of the library goes to testdata/src, by
// its import path, and samples to testdata/src/foreign.
//
// # The files
//
// Each file uses only what the files before it declare:
//
//   - words: text.go, call.go, package.go, libraries.go;
//   - reading what stands in a call: values.go, waits.go, operation.go, origin.go,
//     callbacks.go, making.go;
//   - the libraries, which do not know each other: avast.go, cenkalti.go,
//     retryablehttp.go, sethvargo.go;
//   - deciding about one call: migration.go, comments.go, marks.go, check.go;
//   - deciding what the calls of a package share: share.go, classifier.go, leftover.go,
//     plan.go;
//   - writing the fix: imports.go, write.go, declare.go, fix.go;
//   - migrate.go, which runs all this.
//
// What may live here: what is needed to rewrite a call so that it does the same. A call
// that is not understood stays, with the reason. It looks only at one package: there are
// no facts.
package migrate
