// Package hint reads how long a server asks to wait. It does not import net/http,
// so that package retry can use it: linking net/http would more than double a small
// program.
package hint
