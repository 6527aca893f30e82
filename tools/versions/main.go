// Versions tests the modules that users import, and that require others, outside of
// the workspace, which would raise what they require. From the root of the
// repository:
//
//	go run ./tools/versions
//
// takes what their go.mod require, which is the lowest version of each dependency
// that the tests pass with, and
//
//	go run ./tools/versions -newest
//
// the newest minor versions there are today. It changes no file.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/mod/modfile"

	"github.com/goretry/retry/tools/internal/modules"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("versions: ")
	newest := flag.Bool("newest", false, "test with the newest minor versions instead of the lowest")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	var failed error
	for _, folder := range modules.Nested {
		if err := test(folder, *newest); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", folder, err))
		}
	}
	if failed != nil {
		log.Fatal(failed)
	}
}

// test tests the module in folder.
func test(folder string, newest bool) error {
	if !newest {
		return run(folder, "go", "test", "./...")
	}
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	mod, err := modfile.Parse(folder, data, nil)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "versions")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	file := filepath.Join(temp, "go.mod") // with a go.sum beside it
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	get := []string{"get", "-modfile=" + file}
	for _, r := range mod.Require {
		if r.Mod.Path != modules.Root {
			get = append(get, r.Mod.Path+"@upgrade")
		}
	}
	if err := run(folder, "go", get...); err != nil {
		return err
	}
	return run(folder, "go", "test", "-mod=mod", "-modfile="+file, "./...")
}

func run(dir, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}
