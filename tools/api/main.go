// Api prints the exported API of the library, one line for each name, sorted: what
// api.txt holds, so that a change of the surface shows in review. From the root of
// the repository:
//
//	go run ./tools/api
package main

import (
	"errors"
	"fmt"
	"go/types"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/goretry/retry/tools/internal/modules"
)

func main() {
	objects, err := library()
	if err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
	var lines []string
	for _, obj := range objects {
		lines = append(lines, describe(obj)...)
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
}

// library returns all that the packages of the library export.
func library() (objects []types.Object, err error) {
	folders := []string{"./..."} // the root's packages, and those of the nested modules
	public := map[string]bool{modules.Root: true}
	for _, folder := range modules.Nested {
		folders = append(folders, "./"+folder+"/...")
		public[modules.Path(folder)] = true
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedModule | packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedSyntax | packages.NeedTypesInfo}, folders...)
	if err != nil {
		return nil, err
	}
	if packages.PrintErrors(pkgs) > 0 {
		return nil, errors.New("the packages have errors")
	}
	for _, pkg := range pkgs {
		if pkg.Name == "main" || !public[pkg.Module.Path] || strings.Contains(pkg.PkgPath, "/internal/") {
			continue
		}
		for _, name := range pkg.Types.Scope().Names() {
			if obj := pkg.Types.Scope().Lookup(name); obj.Exported() {
				objects = append(objects, obj)
			}
		}
	}
	return objects, nil
}

// describe returns a line for obj, and one for each exported field and method.
func describe(obj types.Object) []string {
	path := obj.Pkg().Path()
	line := func(format string, args ...any) string { return path + ": " + fmt.Sprintf(format, args...) }
	kept := func(p *types.Package) string {
		if p == obj.Pkg() {
			return ""
		}
		return p.Name()
	}
	if c, ok := obj.(*types.Const); ok {
		return []string{line("const %s %s = %s", c.Name(), types.TypeString(c.Type(), kept), c.Val())}
	}
	name, ok := obj.(*types.TypeName)
	if !ok {
		return []string{line("%s", types.ObjectString(obj, kept))}
	}
	shape := types.TypeString(name.Type().Underlying(), kept)
	lines := []string{}
	if s, ok := name.Type().Underlying().(*types.Struct); ok {
		shape = "struct"
		for f := range s.Fields() {
			if f.Exported() {
				lines = append(lines, line("type %s struct, %s", name.Name(), types.ObjectString(f, kept)))
			}
		}
	}
	lines = append(lines, line("type %s %s", name.Name(), shape))
	if named, ok := name.Type().(*types.Named); ok {
		for m := range named.Methods() {
			if m.Exported() {
				lines = append(lines, line("%s", types.ObjectString(m, kept)))
			}
		}
	}
	return lines
}
