package retryhttp_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The tests of httputil.ReverseProxy, from the sources of the Go that runs this,
// pass with a Transport below the proxy. They know what a RoundTripper must not
// spoil: trailers, 1xx, upgrades, cancels, broken bodies, flushes.
//
// The package is copied to a temporary module at test time. What it imports from
// the inside of the standard library is copied too, or replaced by a stub.
func TestReverseProxysOwnTests(t *testing.T) {
	if os.Getenv("RETRY_LONG") != "1" {
		t.Skip("builds and runs another package's tests: RETRY_LONG=1 runs it")
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("there is no go command: ", err)
	}
	src := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	if _, err := os.Stat(filepath.Join(src, "net/http/httputil/reverseproxy_test.go")); err != nil {
		t.Skip("this Go has no sources: ", err)
	}
	_, here, _, _ := runtime.Caller(0)
	dir := t.TempDir()
	write := func(name, content string) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wrapped := 0
	copyPackage := func(from, to string, names ...string) {
		for _, name := range names {
			b, err := os.ReadFile(filepath.Join(src, from, name))
			if err != nil {
				t.Fatal(err)
			}
			s := strings.NewReplacer(
				`"net/http/internal/ascii"`, `"peer/ascii"`,
				`"internal/godebug"`, `"peer/godebug"`,
				`"golang.org/x/net/http/httpguts"`, `"peer/httpguts"`,
			).Replace(string(b))
			const transport = "transport := p.Transport\n"
			wrapped += strings.Count(s, transport)
			write(filepath.Join(to, name), strings.ReplaceAll(s, transport, "transport := retrying(p.Transport)\n"))
		}
	}
	copyPackage("net/http/httputil", "httputil", "reverseproxy.go", "reverseproxy_test.go")
	copyPackage("net/http/internal/ascii", "ascii", "print.go")
	if wrapped != 1 {
		t.Fatalf("ReverseProxy takes its Transport at %d places, want one: this test must learn where", wrapped)
	}
	write("godebug/godebug.go", `package godebug

type Setting struct{}

func New(string) *Setting       { return new(Setting) }
func (*Setting) Value() string  { return "" }
func (*Setting) IncNonDefault() {}
`)
	write("httpguts/httpguts.go", `package httpguts

import "strings"

func HeaderValuesContainsToken(values []string, token string) bool {
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if strings.EqualFold(strings.TrimSpace(item), token) {
			return true
		}
	}
	return false
}
`)
	write("httputil/retrying_test.go", `package httputil

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// neverEnding is a reader that the tests use and another file has.
type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte{byte(b)}, len(p))), nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	fmt.Println("retrying:", made.Load())
	os.Exit(code)
}
`)
	write("httputil/retrying.go", `package httputil

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

var made atomic.Int64

func retrying(base http.RoundTripper) http.RoundTripper {
	made.Add(1)
	return &retryhttp.Transport{Base: base, Policy: retry.Policy{AttemptTimeout: time.Minute, Backoff: retry.Constant(time.Millisecond)}}
}
`)
	write("go.mod", "module peer\n\ngo 1.26\n\nrequire github.com/goretry/retry v0.0.0\n\nreplace github.com/goretry/retry => "+filepath.Dir(filepath.Dir(here))+"\n")

	cmd := exec.Command("go", "test", "-json", "./httputil")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	passed, failed, used := 0, 0, false
	for line := range bytes.Lines(out) {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		switch {
		case event.Action == "pass" && event.Test != "":
			passed++
		case event.Action == "fail" && event.Test != "":
			failed++
		case strings.HasPrefix(event.Output, "retrying: "):
			used = strings.TrimSpace(event.Output) != "retrying: 0"
		}
	}
	t.Logf("%d tests passed, %d failed", passed, failed)
	if err != nil || failed > 0 || passed < 40 || !used {
		t.Errorf("%v; %d tests passed, want at least 40; through Transports: %v\n%s%s", err, passed, used, stderr.Bytes(), outputs(out))
	}
}

// outputs returns what a go test -json printed.
func outputs(events []byte) string {
	var b strings.Builder
	for line := range bytes.Lines(events) {
		var event struct{ Output string }
		if json.Unmarshal(line, &event) == nil {
			b.WriteString(event.Output)
		}
	}
	return b.String()
}
