package main

import (
	"fmt"
	"go/types"
	"os"
	"slices"
	"testing"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil { // the folders of the library are below the root
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A nil pointer in an error is not nil: `return f()` would report a failure that there is not. So
// no exported func, method or func in a field returns a pointer to an error. The fields that hold
// one say when it is nil.
func TestNoNilPointerBecomesAnError(t *testing.T) {
	fields := []string{
		"retrybatch.Error.Err",    // never nil
		"retrybatch.Failure.Err",  // never nil
		"retryqueue.Decision.Err", // nil for what is no failure, as it says
	}
	objects, err := library()
	if err != nil {
		t.Fatal(err)
	}
	funcs, found := 0, []string{}
	results := func(name string, f *types.Signature) {
		funcs++
		for v := range f.Results().Variables() {
			if isErrorPointer(v.Type()) {
				t.Errorf("%s returns a %v", name, v.Type())
			}
		}
	}
	for _, obj := range objects {
		name := obj.Pkg().Name() + "." + obj.Name()
		if f, ok := obj.Type().(*types.Signature); ok {
			results(name, f)
			continue
		}
		if _, ok := obj.(*types.TypeName); !ok {
			continue
		}
		switch shape := obj.Type().Underlying().(type) {
		case *types.Signature:
			results(name, shape)
		case *types.Interface:
			for m := range shape.Methods() {
				results(name+"."+m.Name(), m.Signature())
			}
		case *types.Struct:
			for f := range shape.Fields() {
				field := name + "." + f.Name()
				if !f.Exported() {
					continue
				}
				if s, ok := f.Type().Underlying().(*types.Signature); ok {
					results(field, s)
				}
				if isErrorPointer(f.Type()) {
					found = append(found, field)
				}
			}
		}
		methods := types.NewMethodSet(types.NewPointer(obj.Type()))
		for m := range methods.Methods() {
			if m.Obj().Exported() {
				results(name+"."+m.Obj().Name(), m.Type().(*types.Signature))
			}
		}
	}
	if slices.Sort(found); !slices.Equal(found, fields) {
		t.Errorf("fields that hold a pointer to an error: %v, want %v", found, fields)
	}
	if funcs < 200 {
		t.Errorf("the API has %d funcs, want more", funcs)
	}
}

// isErrorPointer reports whether t is a pointer that is an error.
func isErrorPointer(t types.Type) bool {
	p, ok := types.Unalias(t).(*types.Pointer)
	return ok && types.Implements(p, types.Universe.Lookup("error").Type().Underlying().(*types.Interface))
}
