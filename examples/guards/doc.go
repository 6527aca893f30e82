// Package guards has the code of docs/guards.md: circuit breakers, rate limiters and quotas
// of others as a [retry.Guard]. Each is short enough to copy.
package guards
