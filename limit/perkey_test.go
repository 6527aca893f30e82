package limit_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/goretry/retry/limit"
)

func keys(p *limit.PerKey) (keys []string) {
	for key := range p.All() {
		keys = append(keys, key)
	}
	return keys
}

func TestPerKeyHasOneLimitForEachKey(t *testing.T) {
	var made []string
	p := limit.PerKey{New: func(key string) *limit.Limit {
		made = append(made, key)
		return &limit.Limit{Start: len(made)}
	}}
	for range 2 {
		for want, key := range []string{"b", "", "a"} {
			if got := p.For(key).Places(); got != want+1 {
				t.Errorf("For(%q) has %d places, want %d", key, got, want+1)
			}
		}
	}
	if want := []string{"b", "", "a"}; !slices.Equal(made, want) {
		t.Errorf("New was called with %q, want %q", made, want)
	}
	var got []string
	for key, l := range p.All() {
		got = append(got, fmt.Sprint(key, l.Places()))
	}
	if want := []string{"2", "a3", "b1"}; !slices.Equal(got, want) {
		t.Errorf("All: %q, want %q", got, want)
	}
}

func TestPerKeyOfNothing(t *testing.T) {
	var none *limit.PerKey
	if l := none.For("a"); l != nil {
		t.Errorf("a nil PerKey has the Limit %p", l)
	}
	if got := keys(none); got != nil {
		t.Errorf("a nil PerKey has the keys %q", got)
	}
	unlimited := limit.PerKey{New: func(string) *limit.Limit { return nil }}
	if l := unlimited.For("a"); l != nil {
		t.Errorf("For returns %p, want what New returned", l)
	}
	for key, l := range unlimited.All() {
		if key != "a" || l != nil {
			t.Errorf("All has %q with %p, want a with nil", key, l)
		}
	}
	var zero limit.PerKey
	if got := zero.For("a").Places(); got != 20 {
		t.Errorf("without New: %d places, want 20", got)
	}
}

// A key that was forgotten begins anew. What is listed is not used.
func TestPerKeyForgetsAKey(t *testing.T) {
	var p limit.PerKey
	p.For("first").Acquire()
	for i := range 3 * 4096 {
		p.For(fmt.Sprint(i))
	}
	if got := keys(&p); slices.Contains(got, "first") || len(got) > 8192 {
		t.Errorf("%d keys, want at most 8192 without the first", len(got))
	}
	if got := p.For("first").InFlight(); got != 0 {
		t.Errorf("a key that comes back has %d in flight, want 0", got)
	}
}
