package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"

	"github.com/goretry/retry/tools/internal/modules"
)

// make makes the commits and tags of version, and tries what it made.
func (r clone) make(version string) error {
	fmt.Println("release", version)
	for _, step := range []func() error{
		r.earlier,
		func() error { return r.commitRoot(version) },
		func() error { return r.commitNested(version) },
		func() error { return r.commitAfter(version) },
		func() error { return r.use(version) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// commitRoot makes the commit and the tag of the root.
func (r clone) commitRoot(version string) error {
	text, err := os.ReadFile(r.changelog())
	if err != nil {
		return err
	}
	previous, err := r.newest(".")
	if err != nil {
		return err
	}
	moved, err := moveUnreleased(string(text), version, previous, time.Now().UTC().Format(time.DateOnly))
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.changelog(), []byte(moved), 0o644); err != nil {
		return err
	}
	if err := r.commit("CHANGELOG: " + version); err != nil {
		return err
	}
	return r.tag(version, ".")
}

// commitNested makes the commit and the tags of the other modules that users import.
func (r clone) commitNested(version string) error {
	for _, folder := range modules.Nested {
		dir := filepath.Join(r.dir, folder)
		err := edit(filepath.Join(dir, "go.mod"), func(mod *modfile.File) error {
			if err := requireOurs(mod, version); err != nil {
				return err
			}
			if err := mod.DropReplace(modules.Root, ""); err != nil {
				return err
			}
			for _, r := range mod.Replace {
				if r.Old.Path != "" {
					return fmt.Errorf("it replaces %s, which users would not get", r.Old.Path)
				}
			}
			return nil
		})
		if err == nil {
			err = do(dir, r.env, "go", "mod", "tidy")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	if err := r.commit("Release " + version); err != nil {
		return err
	}
	return r.tag(version, modules.Nested...)
}

// commitAfter makes the commit with which development goes on: everything is replaced
// by what stands beside it, as before the release, but required as it was released.
// Who takes a nested module from main gets a version of the root that exists.
func (r clone) commitAfter(version string) error {
	for _, folder := range modules.Nested {
		if err := do(r.dir, nil, "git", "checkout", "--quiet", version, "--", folder); err != nil {
			return err
		}
	}
	files, err := output(r.dir, nil, "git", "ls-files", "*go.mod", ":!*/testdata/*")
	if err != nil {
		return err
	}
	for file := range strings.FieldsSeq(files) {
		err := edit(filepath.Join(r.dir, file), func(mod *modfile.File) error { return requireOurs(mod, version) })
		if err != nil {
			return err
		}
	}
	return r.commit("Go on after " + version)
}

func (r clone) commit(message string) error {
	if err := do(r.dir, nil, "git", "add", "--all"); err != nil { // a module that required nothing else gets its first go.sum
		return err
	}
	return do(r.dir, nil, "git", "commit", "--quiet", "--allow-empty", "-am", message)
}

// tag tags version of the modules in folders, if gorelease accepts it.
func (r clone) tag(version string, folders ...string) error {
	gorelease := filepath.Join(r.temp, "gorelease")
	if err := do(filepath.Join(r.dir, "tools"), []string{"GOWORK=off"}, "go", "build", "-o", gorelease, "golang.org/x/exp/cmd/gorelease"); err != nil {
		return err
	}
	for _, folder := range folders {
		previous, err := r.newest(folder)
		if err != nil {
			return err
		}
		base := cmp.Or(previous, "none")
		if err := do(filepath.Join(r.dir, folder), r.env, gorelease, "-base="+base, "-version="+version); err != nil {
			return fmt.Errorf("gorelease does not accept %s: %w", folder, err)
		}
		fmt.Printf("%s: gorelease accepts %s after %s\n", folder, version, base)
		if err := do(r.dir, nil, "git", "tag", tag(folder, version)); err != nil {
			return err
		}
	}
	return nil
}

// requireOurs lets mod require version of the modules of this repository.
func requireOurs(mod *modfile.File, version string) error {
	for _, r := range mod.Require {
		if path := r.Mod.Path; path == modules.Root || strings.HasPrefix(path, modules.Root+"/") {
			if err := mod.AddRequire(path, version); err != nil {
				return err
			}
		}
	}
	return nil
}

func edit(file string, change func(*modfile.File) error) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	mod, err := modfile.Parse(file, data, nil)
	if err != nil {
		return err
	}
	if err := change(mod); err != nil {
		return err
	}
	mod.Cleanup()
	if data, err = mod.Format(); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

func (r clone) changelog() string { return filepath.Join(r.dir, "CHANGELOG.md") }

// unreleased returns what stands under Unreleased in CHANGELOG.md.
func (r clone) unreleased() (string, error) {
	text, err := os.ReadFile(r.changelog())
	if err != nil {
		return "", err
	}
	_, changes, _, err := cutUnreleased(string(text))
	return strings.TrimSpace(changes), err
}

const (
	heading = "## [Unreleased]\n"
	link    = "[Unreleased]: "
)

// cutUnreleased cuts text before and after what stands under Unreleased.
func cutUnreleased(text string) (before, changes, after string, err error) {
	before, rest, found := strings.Cut(text, heading)
	if !found {
		return "", "", "", errors.New("CHANGELOG.md has no heading [Unreleased]")
	}
	end := strings.Index(rest, "\n"+link)
	if end < 0 {
		return "", "", "", errors.New("CHANGELOG.md has no link [Unreleased]")
	}
	if next := strings.Index(rest[:end], "\n## "); next >= 0 {
		end = next
	}
	return before + heading, rest[:end+1], rest[end+1:], nil
}

// moveUnreleased returns text with what stands under Unreleased below version.
func moveUnreleased(text, version, previous, date string) (string, error) {
	before, changes, after, err := cutUnreleased(text)
	if err != nil {
		return "", err
	}
	sections, links, _ := strings.Cut(after, link)
	_, links, _ = strings.Cut(links, "\n")
	page := "https://" + modules.Root
	since := page + "/releases/tag/" + version
	if previous != "" {
		since = page + "/compare/" + previous + "..." + version
	}
	name := version[1:]
	return before + "\n## [" + name + "] - " + date + "\n" + changes + sections +
		link + page + "/compare/" + version + "...HEAD\n[" + name + "]: " + since + "\n" + links, nil
}
