// Package migrate shows how to come here from another library: each row of the
// migration tables in README.md, run in both.
//
//	go test ./examples/migrate
//
// Its tests are the documentation. A subtest bears the name of its row, makes
// the old call and the new one on the same failing operation, and compares what
// both did. They run in testing/synctest bubbles, so waits are exact and cost
// nothing. What differs whichever library one comes from is in every_test.go.
package migrate
