// Package retryvet finds mistakes that compile in programs that retry.
//
//	go run github.com/goretry/retry/retryvet/cmd/retryvet@latest ./...
//
// [Analyzer] is an analysis pass as go vet and gopls run them. It has two groups of
// checks:
//
//   - misuse of package retry: a policy, an operation or an error that does not do
//     what its author means;
//   - loopctx: loops written by hand that sleep although their context has ended.
//
// The command also has the analyzer of package migrate, which rewrites calls of other
// retry libraries. This package knows nothing of those.
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
