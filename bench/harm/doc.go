// Package harm runs other libraries' guards, and retrygrpc's Client, in the worlds of
// [github.com/goretry/retry/internal/harm], in which there is nothing to gain by them. Each of the others is
// wired as its own documentation does it, by its defaults.
package harm
