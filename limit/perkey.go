package limit

import (
	"iter"

	"github.com/goretry/retry/internal/keyed"
)

// PerKey is a set of limits, one for each key, such as a host, a backend or a shard that
// can be overloaded alone. With one [Limit] for all of them the calls to one that hangs
// would take the places of the others.
//
//	var backends limit.PerKey
//
//	user, err := limit.Do(ctx, policy, backends.For(address), fetchUser)
//
// It is safe for concurrent use. Set New before the first use, and do not copy it after.
// The zero value is ready. A nil PerKey limits nothing.
type PerKey struct {
	// New returns the Limit for a new key. It may return nil for no limit, or the same one
	// for several keys. It is called once at a time, and must not use the PerKey. Nil means
	// a zero Limit for each key.
	New func(key string) *Limit

	byKey keyed.Set[*Limit]
}

// For returns the Limit for key, the same one each time. A key may be forgotten after 4096
// others have been used since: then it gets a new Limit. There are at most 8192. Call For
// for each attempt, because that is a use of the key. For a nil PerKey it returns nil,
// which limits nothing.
func (p *PerKey) For(key string) *Limit {
	if p == nil {
		return nil
	}
	return p.byKey.For(key, p.fresh)
}

func (p *PerKey) fresh(key string) *Limit {
	if p.New == nil {
		return new(Limit)
	}
	return p.New(key)
}

// All returns the Limits that there are when the loop begins, sorted by key. A Limit is nil
// if New returned nil. It is no use of the keys. A nil PerKey has none.
func (p *PerKey) All() iter.Seq2[string, *Limit] {
	if p == nil {
		return func(func(string, *Limit) bool) {}
	}
	return p.byKey.All()
}
