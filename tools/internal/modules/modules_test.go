package modules_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/goretry/retry/tools/internal/modules"
)

const repo = "../../.."

// A module of the workspace that nobody decided about would be left out of releases.
func TestEveryModuleIsPublicOrOurs(t *testing.T) {
	ours := []string{
		"bench", "dashboards", "examples", "examples/adapter", "retryvet/behaviour", "servertest", "tools",
	}
	work, err := modfile.ParseWork("go.work", read(t, "go.work"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range work.Use {
		folder := strings.TrimPrefix(use.Path, "./")
		if slices.Contains(modules.Public, folder) == slices.Contains(ours, folder) {
			t.Errorf("%s: say in Public or in this test whether users import it", folder)
		}
	}
}

// docs/v1.md names the lowest versions of what the modules are made for.
func TestLowestVersionsAreDocumented(t *testing.T) {
	_, section, found := strings.Cut(string(read(t, "docs/v1.md")), "\n## Lowest versions\n")
	if !found {
		t.Fatal("docs/v1.md has no section on the lowest versions")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for folder, adapted := range map[string]string{
		"clockx/benbjohnson": "github.com/benbjohnson/clock",
		"otel":               "go.opentelemetry.io/otel",
		"retrygrpc":          "google.golang.org/grpc",
		"retrykafka":         "github.com/twmb/franz-go",
		"retrynats":          "github.com/nats-io/nats.go",
		"retryredis":         "github.com/redis/go-redis/v9",
		"retryvet":           "golang.org/x/tools",
	} {
		mod, err := modfile.Parse(folder, read(t, filepath.Join(folder, "go.mod")), nil)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(mod.Require, func(r *modfile.Require) bool { return r.Mod.Path == adapted })
		if i < 0 {
			t.Errorf("%s does not require %s", folder, adapted)
			continue
		}
		if row := "| `" + folder + "` | " + adapted + " " + mod.Require[i].Mod.Version + " |\n"; !strings.Contains(section, row) {
			t.Errorf("docs/v1.md has no row %s", row)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repo, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A nested module imports nothing internal of the root, so retrygrpc has this file once more.
func TestCopiesAreEqual(t *testing.T) {
	const name = "internal/ending/ending.go"
	if string(read(t, "retrygrpc/"+name)) != string(read(t, name)) {
		t.Errorf("retrygrpc/%s is not a copy of %s", name, name)
	}
}
