package main

import (
	"strings"
	"testing"
)

const changelog = `# Changelog

## [Unreleased]

### Added

- More.

## [0.1.0] - 2026-01-02

### Added

- All.

[Unreleased]: https://github.com/goretry/retry/compare/v0.1.0...HEAD
[0.1.0]: https://github.com/goretry/retry/releases/tag/v0.1.0
`

func TestMoveUnreleased(t *testing.T) {
	got, err := moveUnreleased(changelog, "v0.2.0", "v0.1.0", "2026-03-04")
	want := `# Changelog

## [Unreleased]

## [0.2.0] - 2026-03-04

### Added

- More.

## [0.1.0] - 2026-01-02

### Added

- All.

[Unreleased]: https://github.com/goretry/retry/compare/v0.2.0...HEAD
[0.2.0]: https://github.com/goretry/retry/compare/v0.1.0...v0.2.0
[0.1.0]: https://github.com/goretry/retry/releases/tag/v0.1.0
`
	if err != nil || got != want {
		t.Errorf("got\n%s\nerror %v, want\n%s", got, err, want)
	}
	// A rehearsal, with nothing to announce.
	got, err = moveUnreleased(got, "v0.3.0", "v0.2.0", "2026-03-05")
	want = strings.Replace(want, "## [0.2.0]", "## [0.3.0] - 2026-03-05\n\n## [0.2.0]", 1)
	want = strings.Replace(want, "v0.2.0...HEAD\n", "v0.3.0...HEAD\n[0.3.0]: https://github.com/goretry/retry/compare/v0.2.0...v0.3.0\n", 1)
	if err != nil || got != want {
		t.Errorf("got\n%s\nerror %v, want\n%s", got, err, want)
	}
}

func TestReleaseRefusesToAnnounceNothing(t *testing.T) {
	repo := t.TempDir()
	git(t, repo, "init", "--quiet")
	commit(t, repo, map[string]string{"CHANGELOG.md": "## [Unreleased]\n\n## [0.1.0] - 2026-01-02\n\n- All.\n\n[Unreleased]: https://example.com\n"})
	if err := release(repo, "v0.2.0", t.TempDir()); err == nil || !strings.Contains(err.Error(), "nothing under Unreleased") {
		t.Error(err)
	}
}

func TestFirstRelease(t *testing.T) {
	first := strings.Split(changelog, "\n## [0.1.0]")[0] + "\n[Unreleased]: https://github.com/goretry/retry/commits/main\n"
	got, err := moveUnreleased(first, "v0.1.0", "", "2026-03-04")
	if want := "[0.1.0]: https://github.com/goretry/retry/releases/tag/v0.1.0\n"; err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nerror %v, want %s at the end", got, err, want)
	}
}

func TestReleaseRefusesOtherVersions(t *testing.T) {
	for _, version := range []string{"", "0.1.0", "v1", "v0.1", "latest"} {
		err := release("../..", version, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "is no version such as v0.1.0") {
			t.Errorf("release(%q): %v", version, err)
		}
	}
}
