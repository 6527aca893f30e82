package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/tools/go/packages"
)

// This file says which packages are not checked, and why.

// compiling returns the packages that can be checked.
func compiling(pkgs []*packages.Package) []*packages.Package {
	return slices.DeleteFunc(slices.Clone(pkgs), func(p *packages.Package) bool { return p.IllTyped })
}

// unchecked has a line for each reason why packages are not checked: a module that is
// missing, however many packages need it, or a package that does not compile.
func unchecked(pkgs []*packages.Package) []string {
	var reasons []*reason
	byKey := map[string]*reason{}
	failed := map[string]bool{}
	for _, p := range pkgs { // a package comes before its variants for tests
		if !p.IllTyped || failed[p.PkgPath] || strings.HasSuffix(p.PkgPath, ".test") {
			continue
		}
		failed[p.PkgPath] = true
		for key, text := range why(p) {
			r := byKey[key]
			if r == nil {
				r = &reason{text: text}
				byKey[key] = r
				reasons = append(reasons, r)
			}
			r.packages = append(r.packages, title(p))
		}
	}
	var lines []string
	for _, r := range reasons {
		lines = append(lines, fmt.Sprintf("not checked: %s: %s", list(r.packages), r.text))
	}
	slices.Sort(lines)
	return lines
}

// A reason is why some packages are not checked.
type reason struct {
	text     string
	packages []string
}

// why says what keeps p from being checked, by what is to blame: each module that it needs
// and that is missing, or else the first package with an error, p or one that it imports.
func why(p *packages.Package) map[string]string {
	missing, broken := map[string]string{}, map[string]string{}
	packages.Visit([]*packages.Package{p}, nil, func(dep *packages.Package) {
		isMissing := len(dep.GoFiles) == 0 && dep != p
		errs := distinct(dep.Errors, !isMissing)
		switch {
		case len(errs) == 0:
		case isMissing:
			text, key := errs[0], module(p, dep.PkgPath)
			if !strings.Contains(text, dep.PkgPath) { // another module is to blame: path@version: what is wrong
				key, _, _ = strings.Cut(text, "@")
			}
			if missing[key] == "" {
				missing[key] = text
			}
		case len(broken) == 0:
			text := errs[0]
			if more := len(errs) - 1; more > 0 {
				text += fmt.Sprintf(" (and %d more)", more)
			}
			broken[dep.ID] = text
		}
	})
	switch {
	case len(missing) > 0:
		return missing
	case len(broken) == 0:
		return map[string]string{p.ID: "it has an error"}
	}
	return broken
}

// distinct has a line for each error, with its place if that is wanted. The go command and
// the type checker report the same ones, in files that they name differently.
func distinct(errs []packages.Error, places bool) []string {
	var lines []string
	for _, err := range errs {
		text := strings.Join(strings.Fields(err.Msg), " ")
		if strings.HasPrefix(text, "# ") && len(errs) > 1 { // only the head of what the compiler says
			continue
		}
		if pos := err.Pos; places && pos != "" && pos != "-" {
			if rel, err := filepath.Rel(folder, pos); err == nil && filepath.IsAbs(pos) && filepath.IsLocal(rel) {
				pos = rel
			}
			text = pos + ": " + text
		}
		if !slices.Contains(lines, text) {
			lines = append(lines, text)
		}
	}
	return lines
}

// folder is where the command runs.
var folder, _ = os.Getwd()

// module returns the path of the module that a missing package belongs to: one that the
// go.mod of p requires, else what its path looks like.
func module(p *packages.Package, path string) string {
	if p.Module != nil && strings.HasPrefix(path, p.Module.Path+"/") {
		return path // a package of its own module is missing
	}
	best := ""
	for _, required := range requirements(p.Module) {
		if (path == required || strings.HasPrefix(path, required+"/")) && len(required) > len(best) {
			best = required
		}
	}
	if best != "" {
		return best
	}
	elements := 2
	for _, host := range []string{"github.com/", "gitlab.com/", "bitbucket.org/", "golang.org/"} {
		if strings.HasPrefix(path, host) {
			elements = 3
		}
	}
	parts := strings.Split(path, "/")
	return strings.Join(parts[:min(elements, len(parts))], "/")
}

// requirements returns the paths of the modules that m requires.
func requirements(m *packages.Module) []string {
	if m == nil {
		return nil
	}
	text, err := os.ReadFile(m.GoMod)
	if err != nil {
		return nil
	}
	file, err := modfile.ParseLax(m.GoMod, text, nil)
	if err != nil {
		return nil
	}
	var paths []string
	for _, r := range file.Require {
		paths = append(paths, r.Mod.Path)
	}
	return paths
}

// title names a package, and says so if only its tests are meant.
func title(p *packages.Package) string {
	if p.ForTest != "" {
		return "the tests of " + p.ForTest
	}
	return p.PkgPath
}

// list names some packages, and counts the others.
func list(names []string) string {
	const most = 8
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - most; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
