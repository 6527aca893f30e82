// Release makes a release in the checkout that it runs in, up to the tags:
//
//	go run ./tools/release v0.2.0
//
// It works in a clone. The checkout gets the commits and tags at the end, if gorelease
// accepts each module and strangers can use them: in empty modules outside of the
// workspace, with the go command, which finds this repository where it expects GitHub's.
// Nothing is pushed.
//
// A release is three commits on the branch. The first moves what stands under
// Unreleased in CHANGELOG.md below the version; it has the root's tag. In the second
// the modules that users import require that version of the root, and replace nothing;
// it has their tags. In the third they replace the root again, and all modules of the
// repository go on with the new version, so that @main is never older than a release.
//
//	go run ./tools/release -rehearse
//
// does the same with the next version, whatever is released already, and leaves the
// checkout as it is. It rehearses the last commit, with changes to announce or without. It
// builds each nested module as of its last release, or else of the commit before, with the
// new root. A break must be announced: under Unreleased by a line with "`otel` v0.1.0", for
// instance; before the first release by a change of api.txt.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/goretry/retry/tools/internal/modules"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	rehearsal := flag.Bool("rehearse", false, "make the next release in a clone alone")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: release VERSION, or release -rehearse, in the root of the repository")
	}
	flag.Parse()
	version, run := flag.Arg(0), release
	if *rehearsal {
		run = func(repo, _, temp string) error { return rehearse(repo, temp) }
	}
	if *rehearsal != (flag.NArg() == 0) || flag.NArg() > 1 {
		flag.Usage()
		os.Exit(2)
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

// release releases version in the repository repo.
func release(repo, version, temp string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("%q is no version such as v0.1.0", version)
	}
	switch status, err := output(repo, nil, "git", "status", "--porcelain"); {
	case err != nil:
		return err
	case status != "":
		return fmt.Errorf("the checkout has changes:\n%s", status)
	}
	r, err := newClone(repo, temp)
	if err != nil {
		return err
	}
	switch previous, err := r.newest("."); {
	case err != nil:
		return err
	case previous != "" && semver.Compare(version, previous) <= 0:
		return fmt.Errorf("%s is not above %s", version, previous)
	}
	switch changes, err := r.unreleased(); {
	case err != nil:
		return err
	case changes == "":
		return errors.New("CHANGELOG.md has nothing under Unreleased")
	}
	if err := r.make(version); err != nil {
		return err
	}
	if err := do(repo, nil, "git", "fetch", "--quiet", "--tags", r.dir, branch); err != nil {
		return err
	}
	if err := do(repo, nil, "git", "merge", "--quiet", "--ff-only", "FETCH_HEAD"); err != nil {
		return err
	}
	fmt.Print("tagged; to publish:\n    git push origin HEAD")
	for _, folder := range modules.Public {
		fmt.Print(" ", tag(folder, version))
	}
	fmt.Println()
	return nil
}

// rehearse makes the release that would be the next one of repo, and throws it away.
func rehearse(repo, temp string) error {
	r, err := newClone(repo, temp)
	if err != nil {
		return err
	}
	previous, err := r.newest(".")
	if err != nil {
		return err
	}
	return r.make(next(previous))
}

// next returns the minor version after previous.
func next(previous string) string {
	if previous == "" {
		return "v0.1.0"
	}
	var major, minor int
	if _, err := fmt.Sscanf(previous, "v%d.%d.", &major, &minor); err != nil {
		panic(err) // it is a version
	}
	return fmt.Sprintf("v%d.%d.0", major, minor+1)
}

func tag(folder, version string) string {
	if folder == "." {
		return version
	}
	return folder + "/" + version
}

// A clone is a copy of the repository, in which a release is made and tried.
type clone struct {
	dir  string
	temp string   // for everything else
	env  []string // of go commands: see environment
}

// branch is the clone's, whatever is checked out in the repository.
const branch = "main"

func newClone(repo, temp string) (clone, error) {
	dir, err := filepath.Abs(filepath.Join(temp, "clone"))
	if err != nil {
		return clone{}, err
	}
	env, err := environment(dir, temp)
	if err != nil {
		return clone{}, err
	}
	if err := do(repo, nil, "git", "clone", "--quiet", ".", dir); err != nil {
		return clone{}, err
	}
	if err := do(dir, nil, "git", "checkout", "--quiet", "-B", branch); err != nil {
		return clone{}, err
	}
	for setting, otherwise := range map[string]string{"user.name": "rehearsal", "user.email": "rehearsal@localhost"} {
		value, err := output(repo, nil, "git", "config", "--default", otherwise, "--get", setting)
		if err == nil {
			err = do(dir, nil, "git", "config", setting, strings.TrimSpace(value))
		}
		if err != nil {
			return clone{}, err
		}
	}
	return clone{dir, temp, env}, nil
}

// environment returns the variables under which the go command finds dir where it
// expects this repository on GitHub, and knows nothing of the workspace. Other modules
// come from this machine's cache where it has them. The cache of this run is its own:
// the versions it sees are none that anybody may keep.
func environment(dir, temp string) ([]string, error) {
	known, err := output(".", nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, proxy, _ := strings.Cut(strings.TrimSpace(known), "\n")
	return []string{
		"GOWORK=off",
		"GOFLAGS=-trimpath", // so that what is built is in the build cache next time
		"GOMODCACHE=" + filepath.Join(temp, "modcache"),
		"GOPROXY=" + fileURL(filepath.Join(cache, "cache", "download")) + "," + proxy,
		"GOPRIVATE=" + modules.Root,
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url." + fileURL(dir) + ".insteadOf",
		"GIT_CONFIG_VALUE_0=https://" + modules.Root,
	}, nil
}

// fileURL returns the URL of an absolute path.
func fileURL(path string) string { return "file://" + filepath.ToSlash(path) }

// newest returns the highest version of the module in folder, "" if there is none.
func (r clone) newest(folder string) (string, error) {
	tags, err := output(r.dir, nil, "git", "tag", "--list", tag(folder, "v*"))
	if err != nil {
		return "", err
	}
	newest := ""
	for name := range strings.FieldsSeq(tags) {
		if version := strings.TrimPrefix(name, tag(folder, "")); semver.IsValid(version) && semver.Compare(version, newest) > 0 {
			newest = version
		}
	}
	return newest, nil
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
