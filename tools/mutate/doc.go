// Mutate changes a package's code in one place at a time, and says which changes no
// test notices.
//
//	go run ./tools/mutate [-files classifier.go,backoff.go] [-known file] [-min 98] [directory]
//
// All mutants are compiled into one test binary, each behind a condition on the
// environment variable MUTANT. Every test is run once by itself, to see which
// mutants it reaches and how long it takes. Each mutant is then tried with the tests
// that reach it, the quick ones first, until one fails. Tests of memory,
// allocations and ratios are left out: the mutants' conditions distort them.
//
// Some mutants change nothing that a test could see. The file that -known names
// lists them, with the reasons; they are not counted, and one that dies is told of.
//
// A mutant is one of: a comparison whose boundary moved, a negated condition,
// another operator, a constant one more or less, a statement left out, a result
// replaced by zero.
package main
