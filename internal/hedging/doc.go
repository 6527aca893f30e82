// Package hedging makes the decisions that package hedge and the simulator share:
// after how long a call gets a second attempt, whether it gets one, what budgets are
// charged, and which attempt's answer is the call's.
package hedging
