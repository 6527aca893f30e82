package main

import (
	"cmp"
	"strings"

	"github.com/goretry/retry/tools/internal/hosted"
)

// A project is a module of others.
type project struct {
	path, version string
	grpc          bool // it is grpc-go; others make HTTP requests
	packages      []string
	skip          string // tests that would hang, as go test has it

	// unlike says why a test passes only without the library, by the set-up, the package below
	// the module, and the test.
	unlike map[string]string
}

// itsOwn is said of a test that counts the requests of the project's own retries.
const itsOwn = "it counts the requests of its own retries, and each of these is a run of three"

var projects = []project{
	{path: "github.com/google/go-github/v72", version: "v72.0.0", packages: []string{"./..."}, unlike: map[string]string{
		"three github TestDo_rateLimit_sleepUntilResponseResetLimitRetryOnce": itsOwn,
	}},
	{path: "github.com/slack-go/slack", version: "v0.35.0", packages: []string{"./..."}, unlike: map[string]string{
		"three . TestRetryExhausted429ReturnsError": itsOwn,
	}},
	{path: "golang.org/x/oauth2", version: "v0.38.0", packages: []string{"./..."}},
	{path: "github.com/google/go-containerregistry", version: "v0.22.1", packages: []string{"./..."}, unlike: map[string]string{
		"three pkg/v1/remote TestMultiWrite_Retry":                            "it counts the dials of a port that nobody listens to",
		"three pkg/v1/remote/transport TestTransportSelectionBearerAuthError": "its server fails one request only, and answers the next",
	}},
	{path: "github.com/digitalocean/godo", version: "v1.240.0", packages: []string{"./..."}},
	{path: "google.golang.org/grpc", version: "v1.85.0", grpc: true, packages: []string{"./test", "./health", "./orca", "./stats", "./encoding", "./binarylog"},
		skip: "^Test$/^CallCreds.*StatusCodes$"}, // its credentials fail once, and a second call for them waits for ever
}

// setups are the ways in which the library is used: as the comment of hook has it.
func (h project) setups() []string {
	if h.grpc {
		return []string{"zero", "all", "three"}
	}
	return []string{"one", "all", "three"}
}

// key names a test in unlike.
func (h project) key(setup string, n hosted.Name) string {
	folder := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(n.Package, h.path), "/"), ".")
	return setup + " " + folder + " " + n.Test
}

// reason returns why a test passes only without the library, "" if that is a fault.
func (h project) reason(setup string, n hosted.Name) string { return h.unlike[h.key(setup, n)] }
