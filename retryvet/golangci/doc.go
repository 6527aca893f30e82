// Package golangci makes retryvet a linter of golangci-lint: a module plugin of the name
// retryvet. docs/vet.md has the two files that a project needs.
//
// Its settings are the flags of the checks, all of which are on: "loopctx: false" turns
// that one off. Any other setting is an error. The settings are those of the process, as
// flags are: golangci-lint reads them once.
//
// The linter suggests no fixes. "golangci-lint run --fix" prints nothing of what it fixes,
// and a call that the check foreign rewrites has words to read: "retryvet -fix" prints
// them.
//
// What may live here: what golangci-lint alone asks for.
package golangci
