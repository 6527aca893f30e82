// Package retry has the declarations of avast/retry-go v3 that the samples use.
package retry

type Option func()

func Do(func() error, ...Option) error { return nil }
