// Release makes a release in the checkout that it runs in, up to the tags:
//
//	go run ./tools/release v0.1.0
//
// What stands under Unreleased in CHANGELOG.md moves below the version; that is a
// commit on the branch. The tags are on a commit beside it, in which the modules
// that users import require this version of the root module and replace nothing.
// gorelease must accept each of them. Nothing is pushed.
//
//	go run ./tools/release -rehearse v0.1.0
//
// does the same in a clone, serves the tagged modules as a module proxy in the file
// system, and uses them as strangers do: in empty modules outside of the workspace.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"

	"github.com/goretry/retry/tools/internal/modules"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	rehearsal := flag.Bool("rehearse", false, "release in a clone, and use what was released")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: release [-rehearse] VERSION, in the root of the repository")
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	version := flag.Arg(0)
	run := release
	if *rehearsal {
		run = rehearse
	}
	temp, err := os.MkdirTemp("", "release")
	if err == nil {
		err = run(".", version, temp)
		_ = exec.Command("chmod", "-R", "u+w", temp).Run() // a module cache is read-only
		err = errors.Join(err, os.RemoveAll(temp))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// release tags version in the repository repo. It leaves a module proxy with the
// version in temp/proxy.
func release(repo, version, temp string) error {
	switch status, err := output(repo, nil, "git", "status", "--porcelain"); {
	case !semver.IsValid(version) || semver.Canonical(version) != version:
		return fmt.Errorf("%q is no version such as v0.1.0", version)
	case err != nil:
		return err
	case status != "":
		return fmt.Errorf("the checkout has changes:\n%s", status)
	}
	tags, err := output(repo, nil, "git", "tag", "--list", "v*", "--sort=-version:refname")
	if err != nil {
		return err
	}
	previous := ""
	if all := strings.Fields(tags); len(all) > 0 {
		previous = all[0]
	}
	if semver.Compare(version, cmp.Or(previous, "v0.0.0-0")) <= 0 {
		return fmt.Errorf("%s is not above %s", version, previous)
	}
	changelog := filepath.Join(repo, "CHANGELOG.md")
	text, err := os.ReadFile(changelog)
	if err != nil {
		return err
	}
	moved, err := moveUnreleased(string(text), version, previous, time.Now().UTC().Format(time.DateOnly))
	if err != nil {
		return err
	}
	if err := os.WriteFile(changelog, []byte(moved), 0o644); err != nil {
		return err
	}
	if err := do(repo, nil, "git", "commit", "--quiet", "-m", "CHANGELOG: "+version, "CHANGELOG.md"); err != nil {
		return err
	}

	tree := filepath.Join(temp, "tree")
	if err := do(repo, nil, "git", "worktree", "add", "--quiet", "--detach", tree); err != nil {
		return err
	}
	err = prepare(tree, version, temp)
	if err == nil {
		err = do(tree, nil, "git", "commit", "--quiet", "--allow-empty", "-am", "Release "+version)
	}
	if err == nil {
		err = check(repo, tree, version, previous, temp)
	}
	for _, folder := range modules.Public {
		if err == nil {
			err = do(tree, nil, "git", "tag", tag(folder, version))
		}
	}
	err = errors.Join(err, do(repo, nil, "git", "worktree", "remove", "--force", tree))
	if err != nil {
		return err
	}
	fmt.Println("tagged; to publish:\n    git push origin HEAD", strings.Join(allTags(version), " "))
	return nil
}

func tag(folder, version string) string {
	if folder == "." {
		return version
	}
	return folder + "/" + version
}

func allTags(version string) (tags []string) {
	for _, folder := range modules.Public {
		tags = append(tags, tag(folder, version))
	}
	return tags
}

// moveUnreleased returns text with what stands under Unreleased below version.
func moveUnreleased(text, version, previous, date string) (string, error) {
	const heading = "## [Unreleased]\n"
	before, rest, found := strings.Cut(text, heading)
	if !found {
		return "", errors.New("CHANGELOG.md has no heading [Unreleased]")
	}
	link := strings.Index(rest, "\n[Unreleased]: ")
	if link < 0 {
		return "", errors.New("CHANGELOG.md has no link [Unreleased]")
	}
	end := link + 1 + strings.Index(rest[link+1:], "\n") + 1
	changes := rest[:link]
	if next := strings.Index(changes, "\n## "); next >= 0 {
		changes = changes[:next]
	}
	if strings.TrimSpace(changes) == "" {
		return "", errors.New("CHANGELOG.md has nothing under Unreleased")
	}
	page := "https://" + modules.Root
	since := page + "/releases/tag/" + version
	if previous != "" {
		since = page + "/compare/" + previous + "..." + version
	}
	name := version[1:]
	return before + heading + "\n## [" + name + "] - " + date + "\n" + rest[:link+1] +
		"[Unreleased]: " + page + "/compare/" + version + "...HEAD\n[" + name + "]: " + since + "\n" + rest[end:], nil
}

// prepare lets the nested public modules in tree require the root's version, and puts
// all of them into a module proxy.
func prepare(tree, version, temp string) error {
	for _, folder := range modules.Public {
		dir := filepath.Join(tree, folder)
		file := filepath.Join(dir, "go.mod")
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		mod, err := modfile.Parse(file, data, nil)
		if err != nil {
			return err
		}
		for _, r := range mod.Require {
			if r.Mod.Path == modules.Root {
				if err := errors.Join(mod.AddRequire(modules.Root, version), mod.DropReplace(modules.Root, "")); err != nil {
					return err
				}
			}
		}
		for _, r := range mod.Replace {
			if r.Old.Path != "" {
				return fmt.Errorf("%s replaces %s, which users would not get", file, r.Old.Path)
			}
		}
		mod.Cleanup()
		if data, err = mod.Format(); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
		if err := do(dir, environment(temp), "go", "mod", "tidy"); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		if err := publish(dir, module.Version{Path: mod.Module.Mod.Path, Version: version}, temp); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// publish puts the module in dir into the proxy.
func publish(dir string, m module.Version, temp string) error {
	at := filepath.Join(temp, "proxy", filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, m.Version, time.Now().UTC().Format(time.RFC3339))
	for name, data := range map[string][]byte{
		"list":              []byte(m.Version + "\n"),
		m.Version + ".info": []byte(info),
		m.Version + ".mod":  mod,
	} {
		if err := os.WriteFile(filepath.Join(at, name), data, 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(at, m.Version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(zip.CreateFromDir(f, m, dir), f.Close())
}

// check lets gorelease look at each public module.
func check(repo, tree, version, previous, temp string) error {
	gorelease := filepath.Join(temp, "gorelease")
	if err := do(filepath.Join(repo, "tools"), []string{"GOWORK=off"}, "go", "build", "-o", gorelease, "golang.org/x/exp/cmd/gorelease"); err != nil {
		return err
	}
	for _, folder := range modules.Public {
		base := cmp.Or(previous, "none")
		out, err := output(filepath.Join(tree, folder), environment(temp), gorelease, "-base="+base, "-version="+version)
		if err != nil {
			return fmt.Errorf("gorelease does not accept %s: %w\n%s", folder, err, out)
		}
		fmt.Printf("%s: gorelease accepts %s\n", folder, version)
	}
	return nil
}

// environment returns the variables under which the go command finds the proxy in
// temp, and knows nothing of the workspace. Modules come from this machine's cache
// where it has them. The cache of this run is its own: the version it sees is none
// that anybody may keep.
func environment(temp string) []string {
	known, err := output(".", nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		log.Fatal(err)
	}
	cache, proxy, _ := strings.Cut(strings.TrimSpace(known), "\n")
	return []string{
		"GOWORK=off",
		"GOFLAGS=-trimpath", // so that what is built is in the build cache next time
		"GOMODCACHE=" + filepath.Join(temp, "modcache"),
		"GOPROXY=" + strings.Join([]string{fileURL(filepath.Join(temp, "proxy")), fileURL(filepath.Join(cache, "cache", "download")), proxy}, ","),
		"GONOSUMDB=" + modules.Root + "," + modules.Root + "/*",
	}
}

func fileURL(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		log.Fatal(err)
	}
	return "file://" + filepath.ToSlash(path)
}

func do(dir string, env []string, name string, args ...string) error {
	out, err := output(dir, env, name, args...)
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// output returns what a command writes, to both of its outputs if it fails.
func output(dir string, env []string, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = slices.Concat(os.Environ(), env)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return string(out) + errs.String(), err
	}
	return string(out), nil
}
