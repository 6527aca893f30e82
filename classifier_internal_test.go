package retry

import (
	"reflect"
	"testing"
)

// A chain's silent types are remembered, the latest four of them, so that a long
// chain is not asked error by error.
func TestSilentTypesAreRemembered(t *testing.T) {
	types := []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
	}
	var seen silentTypes
	for _, typ := range types {
		for range 2 {
			if !seen.has(typ) {
				t.Errorf("%v is not silent", typ)
			}
		}
		if _, ok := silence.Load(typ); !ok {
			t.Errorf("%v was not remembered for other chains", typ)
		}
	}
	if want := [...]reflect.Type{types[4], types[1], types[2], types[3]}; seen.types != want {
		t.Errorf("remembered %v, want %v", seen.types, want)
	}
	if seen.has(reflect.TypeFor[*Error]()) || seen.has(reflect.TypeFor[attemptTimeout]()) {
		t.Error("an error with methods is silent")
	}
}
