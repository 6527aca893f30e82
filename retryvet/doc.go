// Package retryvet finds mistakes that compile in programs that retry, and
// rewrites calls of other retry libraries.
//
//	go run github.com/goretry/retry/retryvet/cmd/retryvet@latest ./...
//	go run github.com/goretry/retry/retryvet/cmd/retryvet@latest -fix ./...
//
// [Analyzer] is an analysis pass as go vet and gopls run them. It has three groups
// of checks:
//
//   - misuse of package retry: a policy, an operation or an error that does not do
//     what its author means;
//   - loopctx: loops written by hand that sleep although their context has ended;
//   - foreign: calls of cenkalti/backoff, avast/retry-go, sethvargo/go-retry and
//     hashicorp/go-retryablehttp. Calls of the first two, from version 4 on, and of
//     the third have a fix if everything about the call is understood.
//
// A rewritten call retries the same errors as before. The old libraries retry every
// error that is not marked, so its policy has a Classify, unless every error of the
// operation is Transient anyway. Marks in the operation become retry.Stop. If other
// code may make marks, Classify recognizes those of the old library, whose import
// stays. sethvargo/go-retry retries marked errors only: what is not marked gets
// retry.Stop. Each call is judged by itself, so one that is refused does not prevent
// another rewrite. What calls shared before, such as the function that made their
// backoffs, becomes a policy that they share. The command, run with -fix, prints for each
// call what changes or why it stays.
//
// The category of a diagnostic is the name of its check, and each check has a flag
// of its name: -loopctx=false turns that one off.
//
// A comment on the line of a finding, or on the line before it, turns off one
// check there. It must say why:
//
//	//retryvet:ignore errorignored: the report is best effort
//
// What may live here: checks that are right in at least nine findings of ten, measured
// by cmd/corpus on other modules. A check looks only at one package: there are no
// facts.
package retryvet
