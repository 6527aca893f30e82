package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A nested module must build with the next root, unless a break was announced.
func TestEarlier(t *testing.T) {
	const unreleased = "## [Unreleased]\n\n### Changed\n\n%s\n\n[Unreleased]: https://example.com\n"
	const (
		first   = "package retry\n\nfunc Do() {}\n"
		more    = "package retry\n\nfunc Do() {}\n\nfunc Run() {}\n"
		renamed = "package retry\n\nfunc Run() {}\n"
	)
	const refused = "does not build with the new root, and nothing announces it"
	for _, tt := range []struct {
		name, tag, root, api, changes, want string
	}{
		{"no break before a release", "", more, "Do, Run", "", ""},
		{"a break before a release", "", renamed, "Do", "", "`otel` of the commit before " + refused},
		{"a break before a release, announced", "", renamed, "Run", "", ""},
		{"no break", "otel/v0.1.0", more, "Do, Run", "", ""},
		{"a break", "otel/v0.1.0", renamed, "Run", "", "`otel` v0.1.0 " + refused},
		{"a break, announced", "otel/v0.1.0", renamed, "Run", "- `otel` v0.1.0 does not build with it.", ""},
		{"a break, announced for another release", "otel/v0.2.0", renamed, "Run", "- `otel` v0.1.0 does not build with it.", "`otel` v0.2.0 " + refused},
		{"a break after v1", "otel/v1.1.0", renamed, "Run", "- `otel` v1.1.0 does not build with it.", "`otel` v1.1.0 " + refused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			repo := t.TempDir()
			git(t, repo, "init", "--quiet")
			files := map[string]string{
				"go.mod":       "module github.com/goretry/retry\n\ngo 1.26\n",
				"retry.go":     first,
				"api.txt":      "Do",
				"CHANGELOG.md": strings.Replace(unreleased, "%s", "", 1),
				"otel/go.mod":  "module github.com/goretry/retry/otel\n\ngo 1.26\n\nrequire github.com/goretry/retry v0.0.0\n",
				"otel/otel.go": "package otel\n\nimport \"github.com/goretry/retry\"\n\nfunc F() { retry.Do() }\n",
			}
			commit(t, repo, files)
			if tt.tag != "" {
				git(t, repo, "tag", tt.tag)
				commit(t, repo, map[string]string{"other": ""}) // so that the release is not the commit before
			}
			commit(t, repo, map[string]string{
				"retry.go":     tt.root,
				"api.txt":      tt.api,
				"CHANGELOG.md": strings.Replace(unreleased, "%s", tt.changes, 1),
				"otel/otel.go": "package otel\n",
			})
			r, err := newClone(repo, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			switch err := r.earlier(); {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestEarlierWithoutACommitBefore(t *testing.T) {
	repo := t.TempDir()
	git(t, repo, "init", "--quiet")
	commit(t, repo, map[string]string{"go.mod": "module github.com/goretry/retry\n"})
	r, err := newClone(repo, t.TempDir())
	if err == nil {
		err = r.earlier()
	}
	if err != nil {
		t.Error(err)
	}
}

func TestNextIsAboveTheNewest(t *testing.T) {
	repo := t.TempDir()
	git(t, repo, "init", "--quiet")
	commit(t, repo, map[string]string{"go.mod": "module github.com/goretry/retry\n"})
	for _, step := range []struct{ tag, want string }{
		{"otel/v0.7.0", "v0.1.0"}, // no version of the root
		{"v0.1.0", "v0.2.0"},
		{"v0.9.3", "v0.10.0"},
		{"v0.10.0", "v0.11.0"},
		{"v0.10.0-rc.1", "v0.11.0"},
		{"vague", "v0.11.0"},
		{"v1.0.0-rc.1", "v1.1.0"},
	} {
		git(t, repo, "tag", step.tag)
		newest, err := clone{dir: repo}.newest(".")
		if got := next(newest); err != nil || got != step.want {
			t.Errorf("after %s: %s, error %v, want %s", step.tag, got, err, step.want)
		}
	}
}

func commit(t *testing.T, repo string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, repo, "add", "-A")
	git(t, repo, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--allow-empty", "-m", "test")
}

func git(t *testing.T, repo string, args ...string) {
	t.Helper()
	if err := do(repo, nil, "git", args...); err != nil {
		t.Fatal(err)
	}
}
