package neterr

import (
	"reflect"
	"testing"
)

// A type whose fields are not those that are read by their places is no kind.
func TestLearn(t *testing.T) {
	for k, types := range map[Kind][]reflect.Type{
		URL: {reflect.TypeFor[struct{ Op string }](), reflect.TypeFor[struct{ Op, Err string }]()},
		DNS: {reflect.TypeFor[struct{}]()},
	} {
		for _, of := range types {
			if k.learn(of) {
				t.Errorf("%v has all fields of kind %d", of, k)
			}
		}
	}
}
