package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/goretry/retry/tools/internal/hosted"
	"github.com/goretry/retry/tools/internal/modules"
)

//go:embed http.go.txt
var httpHook string // of a test file, without its package

//go:embed grpc.go.txt
var grpcHook string

// environment of the go command: the project is the main module, and go.mod of its copy may change.
var environment = []string{"GOWORK=off", "GOFLAGS=-mod=mod"}

// A tester runs a project's tests in a copy of it.
type tester struct {
	project
	dir     string
	overlay string // "": none
}

// counts are what the library has done in a run of tests.
type counts struct{ attempts, retries int }

// prepare makes a copy of a project, with a hook for the library.
func prepare(h project, dir string) (*tester, error) {
	source, err := download(h)
	if err != nil {
		return nil, err
	}
	t := &tester{project: h, dir: filepath.Join(dir, "copy")}
	if err := os.CopyFS(t.dir, os.DirFS(source)); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(t.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode()|0o200) // the module cache cannot be written
	})
	if err != nil {
		return nil, err
	}
	if h.grpc {
		return t, t.hookGRPC()
	}
	return t, t.hookHTTP(dir)
}

// download returns the folder of a project in the module cache.
func download(h project) (dir string, err error) {
	cmd := exec.Command("go", "mod", "download", "-json", h.path+"@"+h.version)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if json.Unmarshal(out, &m) != nil || m.Error != "" || m.Dir == "" {
		return "", fmt.Errorf("cannot be downloaded: %w: %s", errors.Join(err), m.Error)
	}
	return m.Dir, nil
}

// folders calls do for each package that has tests, with its folder and name, and whether it has
// tests of its own package.
func (t *tester) folders(do func(dir, name string, inside bool) error) error {
	cmd := exec.Command("go", append([]string{"list", "-e", "-f", "{{.Dir}}\t{{.Name}}\t{{len .TestGoFiles}}\t{{len .XTestGoFiles}}"}, t.packages...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = t.dir, append(os.Environ(), environment...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 4 || f[2] == "0" && f[3] == "0" {
			continue
		}
		if err := do(f[0], f[1], f[2] != "0"); err != nil {
			return err
		}
	}
	return nil
}

// hookHTTP makes an overlay with a hook in each package that has tests.
func (t *tester) hookHTTP(dir string) (err error) {
	o := hosted.NewOverlay(dir)
	if err := o.Client(); err != nil {
		return err
	}
	err = t.folders(func(folder, name string, inside bool) error {
		if !inside {
			name += "_test"
		}
		return o.Add(filepath.Join(folder, "zz_retry_test.go"), []byte("package "+name+"\n"+httpHook))
	})
	if err != nil {
		return err
	}
	t.overlay, err = o.File()
	return err
}

// hookGRPC adds a package to grpc-go that all of its tests import: those outside of a package,
// since the hook imports most of them.
func (t *tester) hookGRPC() error {
	root, err := hosted.Output("", "go", "list", "-m", "-f", "{{.Dir}}", modules.Root)
	if err != nil {
		return err
	}
	edit := exec.Command("go", "mod", "edit")
	for _, folder := range []string{"", "retrygrpc"} {
		path := modules.Path(folder)
		edit.Args = append(edit.Args, "-require="+path+"@v0.0.0", "-replace="+path+"="+filepath.Join(root, folder))
	}
	edit.Dir = t.dir
	if out, err := edit.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	const file, was, is = "dialoptions.go", "globalDialOptions = nil\n", "globalDialOptions = RetryHookOptions\n"
	text, err := os.ReadFile(filepath.Join(t.dir, file))
	if err != nil {
		return err
	}
	if strings.Count(string(text), was) != 1 {
		return fmt.Errorf("%s does not have %q once: this program must learn what it has", file, was)
	}
	hooked := strings.Replace(string(text), was, is, 1) + "\n// RetryHookOptions are kept by ClearGlobalDialOptions.\nvar RetryHookOptions []DialOption\n"
	if err := os.WriteFile(filepath.Join(t.dir, file), []byte(hooked), 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(t.dir, "retryhook"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.dir, "retryhook/hook.go"), []byte(grpcHook), 0o600); err != nil {
		return err
	}
	return t.folders(func(folder, name string, _ bool) error {
		text := "package " + strings.TrimSuffix(name, "_test") + "_test\n\nimport _ \"google.golang.org/grpc/retryhook\"\n"
		return os.WriteFile(filepath.Join(folder, "zz_retry_test.go"), []byte(text), 0o600)
	})
}

// test runs tests in a set-up of the hook.
func (t *tester) test(ctx context.Context, setup, run string, packages []string) (r hosted.Result, c counts, err error) {
	folder, err := os.MkdirTemp("", "counts")
	if err != nil {
		return r, c, err
	}
	defer os.RemoveAll(folder)
	args := []string{"-p", "2", "-timeout", "15m", "-run", run, "-skip", t.skip}
	if t.skip == "" {
		args = args[:len(args)-2]
	}
	if t.overlay != "" {
		args = append(args, "-overlay", t.overlay)
	}
	r, err = hosted.Test(ctx, t.dir, append(environment, "RETRY_HOOK="+setup, "RETRY_COUNTS="+folder), append(args, packages...)...)
	if err != nil {
		return r, c, err
	}
	files, err := os.ReadDir(folder)
	for _, file := range files { // one of each process
		var attempts, retries int
		if text, err := os.ReadFile(filepath.Join(folder, file.Name())); err == nil {
			_, _ = fmt.Sscan(string(text), &attempts, &retries)
		}
		c.attempts, c.retries = c.attempts+attempts, c.retries+retries
	}
	return r, c, err
}
