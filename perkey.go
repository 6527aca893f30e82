package retry

// May call: none of its neighbours.

import (
	"iter"

	"github.com/goretry/retry/internal/keyed"
)

// PerKey has a budget, a limit, a pace, a breaker or a hedge for each part of a system that can
// fail alone: each host, shard or gRPC target, or each method with a pool of its own. With one for
// all parts, those that are well earn retries for one that is down, and calls to one that hangs
// take the places of the others. The zero value is ready; keep it in a package variable. It is
// safe for concurrent use. Set New before the first use, and do not copy it after.
type PerKey[T any] struct {
	// New makes the value for a key when the key is first used. It may return nil, or one value for
	// several keys. It is called once at a time, and must not use the PerKey. Nil means new(T).
	New func(key string) *T

	byKey keyed.Set[*T]
}

// For returns the value for key, the same one each time, but perhaps a new one after 4096 other
// keys have been used. So call For for each call. There are at most 8192 keys of at most 129
// bytes: a longer one has a hash in place of its end. For a nil PerKey, or if New returned nil, it
// returns nil: a nil limit, pace or budget limits nothing, and a nil hedge does not hedge.
func (k *PerKey[T]) For(key string) *T {
	if k == nil {
		return nil
	}
	return k.byKey.For(key, k.fresh)
}

func (k *PerKey[T]) fresh(key string) *T {
	if k.New == nil {
		return new(T)
	}
	return k.New(key)
}

// All returns the values that there are when the loop begins, sorted by key as it is kept, and nil
// where New returned nil. It is no use of the keys. A nil PerKey has none.
func (k *PerKey[T]) All() iter.Seq2[string, *T] {
	if k == nil {
		return func(func(string, *T) bool) {}
	}
	return k.byKey.All()
}
