// Package hosted runs the tests of other people's packages with this library in them, by
// overlays of the go command: nothing is written to GOROOT, nor to the module cache.
package hosted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/goretry/retry/tools/internal/modules"
)

// An Overlay is what go test -overlay reads: files that are replaced, or added.
type Overlay struct {
	Replace map[string]string
	dir     string
}

// NewOverlay returns an empty Overlay, which keeps its files in dir.
func NewOverlay(dir string) *Overlay { return &Overlay{map[string]string{}, dir} }

// Add adds a file.
func (o *Overlay) Add(path string, text []byte) error {
	at := filepath.Join(o.dir, fmt.Sprint(len(o.Replace), ".go"))
	o.Replace[path] = at
	return os.WriteFile(at, text, 0o600)
}

// Change replaces what stands once in a file.
func (o *Overlay) Change(path, was, is string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if bytes.Count(text, []byte(was)) != 1 {
		return fmt.Errorf("%s does not have %q once: this program must learn what it has", path, was)
	}
	return o.Add(path, bytes.Replace(text, []byte(was), []byte(is), 1))
}

// Client adds the root module to the standard library, as goretry/retry, where every package
// can import it, and a hook to http.Client: http.RetryHook gets the RoundTripper of a request
// and returns the one to use.
func (o *Overlay) Client() error {
	src, err := Output("", "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	src = filepath.Join(src, "src")
	module, err := Output("", "go", "list", "-m", "-f", "{{.Dir}}", modules.Root)
	if err != nil {
		return err
	}
	err = filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, _ := filepath.Rel(module, path)
		if d.IsDir() {
			_, isModule := os.Stat(filepath.Join(path, "go.mod"))
			if below != "." && isModule == nil || strings.HasPrefix(d.Name(), ".") && below != "." || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return o.Add(filepath.Join(src, "goretry/retry", below), bytes.ReplaceAll(text, []byte(`"`+modules.Root), []byte(`"goretry/retry`)))
	})
	if err != nil {
		return err
	}
	const was = "func (c *Client) transport() RoundTripper {\n"
	return o.Change(filepath.Join(src, "net/http/client.go"), was, hook+strings.Replace(was, "transport", "transportOfClient", 1))
}

const hook = `// RetryHook is set by a test.
var RetryHook func(RoundTripper) RoundTripper

func (c *Client) transport() RoundTripper {
	rt := c.transportOfClient()
	if RetryHook != nil {
		return RetryHook(rt)
	}
	return rt
}

`

// File writes the overlay and returns its name.
func (o *Overlay) File() (string, error) {
	file := filepath.Join(o.dir, "overlay.json")
	b, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, b, 0o600)
}

// Output returns what a command writes in a folder.
func Output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
