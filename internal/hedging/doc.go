// Package hedging holds what package hedge and the simulator both decide: after
// how long a call gets a second attempt, whether it gets one, what the budgets are
// told, and which attempt's answer is the call's.
package hedging
