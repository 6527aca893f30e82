// Package clockx holds the clocks a retry can run on: the system's, and a
// virtual one on which waiting costs nothing.
//
// A [Clock] sleeps in one call instead of handing out timers. So a clock knows
// who waits and until when, a wait needs no allocation, and a test clock can
// make sleeping and advancing the same thing.
package clockx
