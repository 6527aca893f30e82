// Mutate changes a package's code in one place at a time, and says which changes no
// test notices.
//
//	go run ./tools/mutate [-files classifier.go,backoff.go] [-tests hedge] [-known file] [-min 98] [directory]
//
// All mutants are compiled into one test binary, each behind a condition on the
// environment variable MUTANT. Every test is run once by itself, to see which
// mutants it reaches and how long it takes. Each mutant is then tried with the tests
// that reach it, the quick ones first, until one fails. Tests of memory,
// allocations and ratios are left out: the mutants' conditions distort them. With
// -tests the tests of other packages are run as well: those of hedge for
// internal/hedging, say.
//
// Some mutants change nothing that a test could see. The file that -known names
// lists them as they are printed, without the line's number, and the reasons. They
// are not counted. One that dies is printed. A line that names no mutant of the
// code is an error.
//
// A mutant is one of: a comparison whose boundary moved, a negated condition,
// another operator, a constant one more or less, a statement left out, a result
// replaced by zero.
package main
