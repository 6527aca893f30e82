// Package retryvet finds mistakes that compile in programs that retry, and
// rewrites calls of other retry libraries.
//
//	go run github.com/goretry/retry/retryvet/cmd/retryvet@latest ./...
//	go run github.com/goretry/retry/retryvet/cmd/retryvet@latest -fix ./...
//
// [Analyzer] is an analysis pass as go vet and gopls run them. It has three groups
// of checks:
//
//   - misuse of package retry: a policy, an operation or an error that does
//     something else than its author means;
//   - loopctx: loops written by hand that sleep although their context has ended;
//   - foreign: calls of cenkalti/backoff, avast/retry-go, sethvargo/go-retry and
//     hashicorp/go-retryablehttp. Those of the first two have a fix, from version 4
//     on, where everything about the call is understood.
//
// A rewritten call repeats the errors that it repeated before: the old libraries
// repeat every error that is not marked, so its policy has a Classify unless every
// error of the operation is seen to be Transient anyway. Marks in the operation become
// retry.Stop. Where others may make marks, Classify finds those of the old library,
// whose import stays. Each call is judged by itself: one that is refused forbids no
// other. The command, run with -fix, prints for each call what changes or why it stays.
//
// The category of a diagnostic is the name of its check, and each check has a flag
// of its name: -loopctx=false turns that one off.
//
// A comment on the line of a finding, or on the line before it, turns off one
// check there. It must say why:
//
//	//retryvet:ignore errorignored: the report is best effort
//
// What may live here: checks that are right in at least nine findings of ten,
// measured by cmd/corpus on modules of other people. A check needs nothing but the
// package that it looks at: there are no facts.
package retryvet
