package neterr

import (
	"reflect"
	"testing"
)

// A type whose fields are not those that are read by their places is no kind.
func TestLearn(t *testing.T) {
	for k, types := range map[Kind][]reflect.Type{
		URL: {reflect.TypeFor[struct{ Op string }](), reflect.TypeFor[struct{ Op, Err string }]()},
		DNS: {reflect.TypeFor[struct{}](), reflect.TypeFor[struct{ IsNotFound, IsTimeout bool }]()},
	} {
		for _, of := range types {
			if k.learn(of) {
				t.Errorf("%v has all fields of kind %d", of, k)
			}
		}
	}
	if !URL.learn(reflect.TypeFor[struct {
		Op  string
		Err error
	}]()) {
		t.Error("a *url.Error is not known")
	}
}
