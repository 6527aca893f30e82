// Package hedging holds what package hedge and the simulator both decide: after
// how long a call gets a second attempt, whether it gets one, what the budgets are
// told, and which attempt's answer is the call's.
//
// What may live here: code that is told the time and what happened. It starts no
// goroutine, sets no timer, reads no clock and makes no context. Package hedge
// does that with real calls, the simulator with simulated ones.
package hedging
