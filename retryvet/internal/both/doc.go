// Package both joins the checks of package retryvet and the analyzer of package migrate:
// what the command runs.
//
// What may live here: the list of the analyzers.
package both
