// Package retryvet finds mistakes that compile in programs that retry.
//
//	go run github.com/goretry/retry/retryvet/cmd/retryvet@latest ./...
//
// [Analyzer] is an analysis pass as go vet and gopls run them. It has two groups of
// checks:
//
//   - misuse of package retry: a policy, an operation or an error that does not do
//     what its author means;
//   - loopctx: loops written by hand that sleep and go on although their context has ended.
//
// The command, and the linter that package golangci makes of it, also have the analyzer of
// package migrate, which rewrites calls of other retry libraries. This package knows
// nothing of those.
//
// The category of a diagnostic is the name of its check, and each check has a flag
// of its name: -loopctx=false turns that one off. docs/vet.md says what each of them
// reports, and CORPUS.md what they found elsewhere.
//
// A comment on the line of a finding, or on the line before it, turns off one
// check there. It must say why:
//
//	//retryvet:ignore errorignored: the report is best effort
//
// These are not reported, by check:
//
//   - outerctx: Err and Value of the caller's context; defers; retry.AttemptNumber;
//   - timeoutbody: an operation that sets a new body;
//   - freshstate: what a loop, a literal or other code may share; what a method makes, or
//     another package; types of other projects, but for guards and budgets that have a mutex or
//     an atomic; in a function that gets no request, clients that other code uses; tests;
//   - guardorder: guards that are elements of two literals, but for those of a Transport and
//     of its Policy; types that wrap a Pace or a Limit; tests;
//   - idleguard: Limits of a package that sets Max later; fields of a struct; Paces that a
//     package exports, or tells anything; tests;
//   - untimed: policies and Sets that are not literals, or are changed; tests;
//   - nilmark: a mark that is compared;
//   - nanoseconds: tests;
//   - sleepinop: goroutines; tests;
//   - unreadstatus: operations that hand the response on, or are of retry.Until; one attempt;
//     calls of a RoundTripper; tests;
//   - nested: policies that are not literals; Classify set; one attempt; a transaction within
//     another; tests;
//   - errorignored: an error assigned to _; tests;
//   - compared: nil; *retry.Error; interfaces;
//   - severalcalls: calls without a context or an error; names such as Get, List and
//     Wait; a transaction before its Commit, or of retrysql; batches; a policy without
//     Classify, for which only retry.Undone is proof; tests;
//   - freshtoken: other clients than stripe-go and the SDK of AWS; policies that are not
//     literals; inputs that come from elsewhere; tests;
//   - forgottendone: Attempts that are handed on, or used in a literal; a Close that is
//     not deferred; calls that do not return;
//   - copied: a local one that is returned; tests;
//   - loopctx: waits of at most 100 ms; functions that get no context, nor a request or
//     the like that has one; goroutines of a request's handler, those that do not use the
//     context, and tests that have only a *testing.T; loops that a call under the context
//     leaves when it fails, and those that look at the context, unless they wait after a
//     failure first; loops that call nothing but what looks at values, tells or waits; in
//     tests, loops that a success does not leave.
//
// What may live here: checks that are right in at least nine findings of ten, measured
// by cmd/corpus on other modules. A check looks only at one package: there are no
// facts.
package retryvet
