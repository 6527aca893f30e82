// Package both joins the checks of package retryvet and the analyzer of package migrate:
// what the command runs, and golangci-lint.
//
// What may live here: the list of the analyzers.
package both
