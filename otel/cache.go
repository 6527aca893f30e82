package otelretry

import (
	"maps"
	"sync"
	"sync/atomic"
)

// cache keeps the first thousand values that are asked for. Reading takes no lock.
type cache[K comparable, V any] struct {
	build func(K) V
	mu    sync.Mutex
	kept  atomic.Pointer[map[K]V] // replaced, never written to
}

const cached = 1000

// get returns the value of key, which is built if it is not kept.
func (c *cache[K, V]) get(key K) V {
	if kept := c.kept.Load(); kept != nil {
		if v, ok := (*kept)[key]; ok {
			return v
		}
		if len(*kept) >= cached {
			return c.build(key)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	grown := map[K]V{}
	if kept := c.kept.Load(); kept != nil { // maybe grown since
		if v, ok := (*kept)[key]; ok {
			return v
		}
		grown = maps.Clone(*kept)
	}
	v := c.build(key)
	if len(grown) < cached {
		grown[key] = v
		c.kept.Store(&grown)
	}
	return v
}
