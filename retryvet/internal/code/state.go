package code

import "go/types"

// HoldsState reports whether a value of type t has a mutex, an atomic or the like in it, at
// any depth but not behind a pointer: it remembers something for all that use it.
func HoldsState(t types.Type) bool {
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() != nil {
		switch named.Obj().Pkg().Path() {
		case "sync", "sync/atomic":
			return true
		}
	}
	switch t := t.Underlying().(type) {
	case *types.Struct:
		for f := range t.Fields() {
			if HoldsState(f.Type()) {
				return true
			}
		}
	case *types.Array:
		return HoldsState(t.Elem())
	}
	return false
}

// IsOurs reports whether t is an exported type of this project, or an instance of one.
func IsOurs(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Exported() && named.Obj().Pkg() != nil && Ours(named.Obj().Pkg().Path())
}

// Deref returns what t points to, or t.
func Deref(t types.Type) types.Type {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		return pointer.Elem()
	}
	return t
}

// Implements reports whether a pointer to t is a value of the interface of package retry.
func (p *Package) Implements(t types.Type, name string) bool {
	pkg := find(p.Pkg, RetryPath, map[*types.Package]bool{})
	if pkg == nil {
		return false
	}
	obj := pkg.Scope().Lookup(name)
	return obj != nil && types.Implements(types.NewPointer(t), obj.Type().Underlying().(*types.Interface))
}

// find returns the package of that path that pkg is or imports, maybe by others, or nil.
func find(pkg *types.Package, path string, seen map[*types.Package]bool) *types.Package {
	if pkg.Path() == path {
		return pkg
	}
	seen[pkg] = true
	for _, imported := range pkg.Imports() {
		if !seen[imported] {
			if found := find(imported, path, seen); found != nil {
				return found
			}
		}
	}
	return nil
}
