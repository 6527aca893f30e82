package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/goretry/retry/tools/internal/modules"
)

// earlier builds each nested module as it was at its last release with the root as it
// is now: users upgrade the two one by one. Of a module that has no release it takes
// the commit before, which shows the same a commit at a time.
//
// Before v1 a break may be announced. That of a release: CHANGELOG.md says under
// Unreleased what breaks, in a line with "`otel` v0.1.0" for instance. That of a commit:
// it changes api.txt.
func (r clone) earlier() error {
	for _, folder := range modules.Nested {
		if folder == modules.Program {
			continue // it never meets another root than its own
		}
		version, err := r.newest(folder)
		if err != nil {
			return err
		}
		base, name := tag(folder, version), "`"+folder+"` "+version
		if version == "" {
			base, name = "HEAD~1", "`"+folder+"` of the commit before"
			if err := do(r.dir, nil, "git", "rev-parse", "--verify", base); err != nil {
				fmt.Println(name + ": not built with the new root, since this clone has no commit before (is it shallow?)")
				continue
			}
		}
		switch err := r.buildEarlier(folder, base); {
		case errors.Is(err, errNotThere):
			fmt.Println(name + ": it did not exist, or did not require the root")
			continue
		case err == nil:
			fmt.Println(name + ": builds with the new root")
			continue
		default:
			announced, err2 := r.announced(name, version)
			if err2 != nil {
				return err2
			}
			if !announced {
				return fmt.Errorf("%s does not build with the new root, and nothing announces it: %w", name, err)
			}
			fmt.Println(name + ": does not build with the new root, as announced")
		}
	}
	return nil
}

// announced reports whether a break of a module may happen: version is its last one.
func (r clone) announced(name, version string) (bool, error) {
	if version == "" {
		changed, err := output(r.dir, nil, "git", "diff", "--name-only", "HEAD~1", "--", "api.txt")
		return changed != "", err
	}
	changes, err := r.unreleased()
	return semver.Major(version) == "v0" && strings.Contains(changes, name), err
}

var errNotThere = errors.New("not there")

// buildEarlier builds the module in folder as it was at base.
func (r clone) buildEarlier(folder, base string) error {
	tree := filepath.Join(r.temp, "earlier", folder)
	if err := do(r.dir, nil, "git", "worktree", "add", "--quiet", "--detach", tree, base); err != nil {
		return err
	}
	dir := filepath.Join(tree, folder)
	needsRoot := false
	err := edit(filepath.Join(dir, "go.mod"), func(mod *modfile.File) error {
		for _, require := range mod.Require {
			needsRoot = needsRoot || require.Mod.Path == modules.Root
		}
		return mod.AddReplace(modules.Root, "", r.dir, "")
	})
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && !needsRoot:
		err = errNotThere
	case err == nil:
		err = do(dir, r.env, "go", "build", "./...")
	}
	return errors.Join(err, do(r.dir, nil, "git", "worktree", "remove", "--force", tree))
}
