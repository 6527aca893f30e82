// Package limits has other libraries' limits of attempts in flight in the worlds of internal/loadlab,
// where bench/harm has them in those of internal/harm.
package limits
