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
