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
//   - foreign: calls of cenkalti/backoff and avast/retry-go, with a fix where
//     everything about the call is understood.
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
