// Package deadline makes contexts that end when a clock of ours says so, and
// that otherwise behave as those of [context.WithDeadlineCause].
package deadline
