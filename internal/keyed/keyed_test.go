package keyed_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goretry/retry/internal/keyed"
)

// fresh returns another value each time.
func fresh(string) *int { return new(int) }

func keys(s *keyed.Set[*int]) (keys []string) {
	for key := range s.All() {
		keys = append(keys, key)
	}
	return keys
}

func TestSetHasOneValueForEachKey(t *testing.T) {
	var s keyed.Set[*int]
	if got := keys(&s); got != nil {
		t.Errorf("an empty Set has the keys %q", got)
	}
	var made []string
	note := func(key string) *int { made = append(made, key); return new(int) }
	values := map[string]*int{}
	for _, key := range []string{"b", "", "a"} {
		values[key] = s.For(key, note)
	}
	for key, value := range values {
		if s.For(key, note) != value {
			t.Errorf("%q has two values", key)
		}
	}
	if want := []string{"b", "", "a"}; !slices.Equal(made, want) {
		t.Errorf("made values for %q, want %q", made, want)
	}
	if got, want := keys(&s), []string{"", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("All: %q, want %q", got, want)
	}
	for key, value := range s.All() {
		if value != values[key] {
			t.Errorf("%q has another value in the list", key)
		}
	}
}

// A key keeps its value until more than 4096 others have been used, and there are at most
// 8192, also if others choose the keys.
func TestSetForgetsWhatIsNotUsed(t *testing.T) {
	s, next := new(keyed.Set[*int]), 0
	use := func(others int) {
		for range others {
			next++
			s.For(fmt.Sprint(next), fresh)
		}
	}
	use(4095)
	first := s.For("first", fresh)
	for range 3 {
		if use(4096); s.For("first", fresh) != first {
			t.Fatal("another value after 4096 other keys")
		}
		if n := len(keys(s)); n > 8192 {
			t.Fatalf("%d keys, want at most 8192", n)
		}
	}
	if use(30_000); len(keys(s)) > 8192 {
		t.Errorf("%d keys after 30 000, want at most 8192", len(keys(s)))
	}
	if s.For("first", fresh) == first {
		t.Error("a key was not forgotten after 30 000 others")
	}
	s = new(keyed.Set[*int])
	if use(8192); len(keys(s)) != 8192 {
		t.Errorf("%d keys, want 8192", len(keys(s)))
	}
	if use(1); len(keys(s)) != 4097 {
		t.Errorf("%d keys after one more than 8192, want 4097", len(keys(s)))
	}
}

// What a Set keeps is bounded in bytes too, since others may choose keys of any length. Long
// keys have values of their own.
func TestSetKeepsLittleOfLongKeys(t *testing.T) {
	var s keyed.Set[*int]
	values := map[*int]string{}
	var given []string
	note := func(key string) *int { given = append(given, key); return new(int) }
	shared := strings.Repeat("x", 1<<20)
	for _, key := range []string{shared, shared + "y", "y" + shared, shared[:128], shared[:129], shared[:127] + "y"} {
		v := s.For(key, note)
		if other, ok := values[v]; ok {
			t.Errorf("keys of %d and %d bytes have one value", len(key), len(other))
		}
		values[v] = key
		if s.For(strings.Clone(key), note) != v {
			t.Errorf("a key of %d bytes has two values", len(key))
		}
		if given[len(given)-1] != key {
			t.Errorf("a value was made for a part of a key of %d bytes", len(key))
		}
	}
	for _, key := range keys(&s) {
		if len(key) > 129 {
			t.Errorf("%d bytes of a key are kept, want at most 129", len(key))
		}
		if len(key) > 128 { // is it a key of its own?
			before := len(keys(&s))
			if s.For(key, fresh); len(keys(&s)) != before+1 {
				t.Errorf("a key of %d bytes is that of a longer one", len(key))
			}
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 8192 {
		s.For(fmt.Sprint(i)+shared[:16<<10], fresh)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 8<<20 {
		t.Errorf("8192 keys of 16 KiB take %d bytes", kept)
	}
	runtime.KeepAlive(&s)
}

// To list a key is not to use it.
func TestSetForgetsWhatIsOnlyListed(t *testing.T) {
	var s keyed.Set[*int]
	first := s.For("first", fresh)
	for i := range 8192 {
		s.For(fmt.Sprint(i), fresh)
		if i%1000 == 0 {
			for range s.All() {
				break // a loop may end early
			}
		}
	}
	if s.For("first", fresh) == first {
		t.Error("a key that was only listed is kept after 8192 others")
	}
}

// A loop over All may use the Set.
func TestSetInALoopOverIt(t *testing.T) {
	var s keyed.Set[*int]
	s.For("a", fresh)
	s.For("b", fresh)
	for key := range s.All() {
		s.For(strings.ToUpper(key), fresh)
	}
	if got, want := keys(&s), []string{"A", "B", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
}

// If fresh panics, the Set stays as it was, and can be used.
func TestSetAfterAPanic(t *testing.T) {
	var s keyed.Set[*int]
	func() {
		defer func() { _ = recover() }()
		s.For("a", func(string) *int { panic("bad") })
	}()
	if got := keys(&s); got != nil || s.For("a", fresh) == nil {
		t.Errorf("after a panic: keys %q", got)
	}
}

func TestSetConcurrently(t *testing.T) {
	var made atomic.Int32
	var s keyed.Set[*int]
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 100 {
				s.For(strings.Repeat("k", i), func(string) *int { made.Add(1); return new(int) })
				keys(&s)
			}
		})
	}
	if all.Wait(); made.Load() != 100 {
		t.Errorf("made %d values for 100 keys", made.Load())
	}
}

// A key that is known costs no allocation.
func TestSetAllocatesNothingForAKnownKey(t *testing.T) {
	var s keyed.Set[*int]
	s.For("host", fresh)
	if n := testing.AllocsPerRun(100, func() { s.For("host", fresh) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
