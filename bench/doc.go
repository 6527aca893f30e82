// Package bench compares this library with popular ones, on the same work in one run:
//
//	go run ./bench/cmd/table
//
// writes what it measured to RESULTS.md, and what each library did in a dozen
// scenarios to BEHAVIOUR.md.
//
// What makes it fair: all call the same operation through the same signature, with a
// context that can be canceled and a value of 56 bytes. Each [Peer] is used in the
// fastest way that its documentation describes, with as much as possible made once for
// all calls. Its file says how. A test checks that all of them make the same calls
// with the same waits. What a library cannot do is left out with the reason, never
// imitated. The cases of an [Item] take turns, so that drift affects all alike.
// Figures are medians, and ratios are taken within a round. A goal that is missed is
// printed as missed.
package bench
