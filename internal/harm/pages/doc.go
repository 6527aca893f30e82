// Package pages brings the examples of the pages that show a guard or a budget into the worlds of package harm: its
// test compares what is there with the pages, and writes it anew with -update.
package pages
