// Package keyed keeps one value for each key, such as a host, within bounds: others may
// choose the keys, because a redirect names a host.
package keyed

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// few is how many keys there may be in each map of a Set, and long how many bytes of a key it
// keeps.
const (
	few  = 4096
	long = 128
)

// Set has one value for each key. A key may be forgotten after 4096 others have been used
// since, and there are at most 8192. A key that is longer than 128 bytes is kept as its
// beginning and a hash. The zero value is ready. A Set is safe for concurrent use, and must
// not be copied after the first use.
type Set[V any] struct {
	mu            sync.RWMutex
	recent, older map[string]V // a key may be in both, with the same value
}

// seeds are of this process: without them nobody finds two keys with the same hashes.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// short returns key if it is not long, else its beginning and two hashes of 64 bits. It is longer
// than all keys that are not long, and so is none of them.
func short(key string) string {
	if len(key) <= long {
		return key
	}
	b := append(make([]byte, 0, long+1), key[:long-32]...)
	b = append(b, '~')
	for _, seed := range seeds { // with 16 digits each, whatever the hash
		b = append(b, strconv.FormatUint(maphash.String(seed, key)|1<<63, 16)...)
	}
	return string(b)
}

// For returns the value for whole, which fresh makes if there is none. fresh is called once
// at a time, and must not use the Set. If it panics, the Set is as before.
func (s *Set[V]) For(whole string, fresh func(key string) V) V {
	key := short(whole)
	s.mu.RLock()
	value, ok := s.recent[key]
	s.mu.RUnlock()
	if ok {
		return value
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, ok := s.recent[key]; ok {
		return value // another goroutine was quicker
	}
	if value, ok = s.older[key]; !ok {
		value = fresh(whole)
	}
	if s.recent == nil || len(s.recent) == few {
		s.recent, s.older = make(map[string]V), s.recent
	}
	s.recent[strings.Clone(key)] = value // key may be a part of a long text
	return value
}

// All returns the values that there are when the loop begins, sorted by key as it is kept. It
// is no use of the keys. The loop may use the Set.
func (s *Set[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		all := s.snapshot()
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if !yield(key, all[key]) {
				return
			}
		}
	}
}

func (s *Set[V]) snapshot() map[string]V {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := map[string]V{}
	maps.Copy(all, s.recent)
	maps.Copy(all, s.older)
	return all
}
