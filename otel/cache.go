package otelretry

import (
	"maps"
	"sync"
	"sync/atomic"
)

// cache keeps the values of the first keys that are looked up. Reading takes no
// lock.
type cache[K comparable, V any] struct {
	most  int       // keys that are kept
	own   func(K) K // copies a key that is to be kept; nil: it keeps nothing else alive
	build func(K) V
	mu    sync.Mutex
	kept  atomic.Pointer[map[K]V] // replaced, never written to
}

// values returns what is kept, to read only.
func (c *cache[K, V]) values() map[K]V {
	if kept := c.kept.Load(); kept != nil {
		return *kept
	}
	return nil
}

// find returns the value of a key that is kept, or that there is still room for.
func (c *cache[K, V]) find(key K) (v V, ok bool) {
	kept := c.values()
	if v, ok = kept[key]; ok || len(kept) >= c.most {
		return v, ok
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept = c.values() // maybe more by now
	if v, ok = kept[key]; ok || len(kept) >= c.most {
		return v, ok
	}
	grown := make(map[K]V, len(kept)+1)
	maps.Copy(grown, kept)
	if c.own != nil {
		key = c.own(key)
	}
	v = c.build(key)
	grown[key] = v
	c.kept.Store(&grown)
	return v, true
}

// get is find for values that are built each time once there is no room.
func (c *cache[K, V]) get(key K) V {
	if v, ok := c.find(key); ok {
		return v
	}
	return c.build(key)
}

// slot keeps one value once it is built. Of two that are built at the same time
// either may stay.
type slot[V any] struct{ kept atomic.Pointer[V] }

func (s *slot[V]) get(build func() V) *V {
	if v := s.kept.Load(); v != nil {
		return v
	}
	v := build()
	s.kept.Store(&v)
	return &v
}
