// Package model has the rules of a run and those of Supervise a second time: written from the
// documentation of package retry, for one goroutine, as plainly as they can be, and sharing
// nothing with the engine. Its tests, which are all that it has, compare the two: TestEveryRun
// on every run of up to four attempts, TestEverySupervise on every three failures of an op.
package model
