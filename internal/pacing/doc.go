// Package pacing decides when attempts that share a quota start. It is the law (law.go) and the
// queues (pacing.go) of a pace.Pace, without a clock, a lock or a goroutine: package retry waits by
// it, and package storm simulates processes that do.
package pacing
