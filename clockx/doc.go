// Package clockx has the clocks for runs of package retry: the system's, and a virtual
// one on which waiting costs nothing.
//
// A [Clock] sleeps in one call and has no timers. So a clock knows who waits and until
// when, a wait needs no allocation, and on a test clock sleeping can advance the time.
package clockx
