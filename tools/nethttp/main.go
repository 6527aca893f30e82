// Command nethttp runs net/http's own tests, from the sources of the Go that runs it,
// with a retryhttp.Transport of one attempt below every http.Client:
//
//	go run ./tools/nethttp            # all tests: some minutes
//	go run ./tools/nethttp -run Client
//
// They know what a RoundTripper must not spoil. Each test runs twice: with a RoundTripper
// that only hands on, and with a Transport. The exit status is 1 if one passes with the
// former alone. The Transport's *retry.Error is replaced by what the base returned, since
// the tests compare errors. With Go 1.26 no test passes with the former alone: of 1503,
// subtests included, 1485 pass with both and 18 skip themselves.
//
// Left out is what calls http.Transport.CancelRequest, which is deprecated: it knows only
// the requests that the base got, and a Transport sends copies.
//
// Some tests of timeouts fail now and then with either: of a RoundTripper that is not its
// own, http.Client learns of its timeout by a timer of its own, beside the one of the
// context. What fails with a Transport therefore runs up to nine times more.
//
// Nothing is written to GOROOT: an overlay of the go command adds this library to the
// standard library, where net/http's tests can import it, and a hook to http.Client.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	run := flag.String("run", ".", "which of net/http's tests, as go test has it")
	flag.Parse()
	dir, err := os.MkdirTemp("", "nethttp")
	if err != nil {
		log.Fatal(err)
	}
	worse, err := compare(dir, *run)
	os.RemoveAll(dir)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range worse {
		fmt.Println("passes only without a Transport:", name)
	}
	if len(worse) > 0 {
		os.Exit(1)
	}
}

// compare returns the tests that pass only without a Transport, with what they print.
func compare(dir, run string) (worse []string, err error) {
	overlay, err := makeOverlay(dir)
	if err != nil {
		return nil, err
	}
	without, err := test(overlay, run, "plain")
	if err != nil {
		return nil, err
	}
	with, err := test(overlay, run, "retryhttp")
	if err != nil {
		return nil, err
	}
	fmt.Printf("without: %v\nwith:    %v\n", without, with)
	if with.requests == 0 {
		return nil, errors.New("no request went through a Transport")
	}
	for range 9 {
		worse = with.worseThan(without)
		if len(worse) == 0 {
			break
		}
		again, err := test(overlay, "^("+strings.Join(worse, "|")+")$", "retryhttp")
		if err != nil {
			return nil, err
		}
		for name, ended := range again.tests {
			if ended == "pass" {
				fmt.Println("passed when repeated:", name)
				with.tests[name] = ended
			}
		}
	}
	for i, name := range worse {
		worse[i] += "\n" + with.texts[name]
	}
	return worse, nil
}

// worseThan returns the tests that did not pass, though they did in other, by the
// names of those that they are a part of.
func (r result) worseThan(other result) (names []string) {
	for name, ended := range other.tests {
		if whole, _, _ := strings.Cut(name, "/"); ended == "pass" && r.tests[name] != "pass" && !slices.Contains(names, whole) {
			names = append(names, whole)
		}
	}
	slices.Sort(names)
	return names
}

// makeOverlay writes what replaces and adds to files of GOROOT.
func makeOverlay(dir string) (file string, err error) {
	root, err := goroot()
	if err != nil {
		return "", err
	}
	src := filepath.Join(root, "src")
	module, err := output("go", "list", "-m", "-f", "{{.Dir}}", "github.com/goretry/retry")
	if err != nil {
		return "", err
	}
	o := overlay{dir: dir, Replace: map[string]string{}}
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
		return o.add(filepath.Join(src, "goretry/retry", below), bytes.ReplaceAll(text, []byte(`"github.com/goretry/retry`), []byte(`"goretry/retry`)))
	})
	if err != nil {
		return "", err
	}
	http := filepath.Join(src, "net/http")
	if err := o.change(filepath.Join(http, "client.go"), "func (c *Client) transport() RoundTripper {\n", hook+"func (c *Client) transportOfClient() RoundTripper {\n"); err != nil {
		return "", err
	}
	if err := o.change(filepath.Join(http, "main_test.go"), "v := m.Run()\n", "v := m.Run()\n\tfmt.Println(\"requests:\", requests.Load())\n"); err != nil {
		return "", err
	}
	if err := o.add(filepath.Join(http, "zz_retry_test.go"), []byte(install)); err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, b, 0o600)
}

func goroot() (string, error) { return output("go", "env", "GOROOT") }

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// overlay is what go test -overlay reads.
type overlay struct {
	Replace map[string]string
	dir     string
}

func (o *overlay) add(path string, text []byte) error {
	at := filepath.Join(o.dir, fmt.Sprint(len(o.Replace), ".go"))
	o.Replace[path] = at
	return os.WriteFile(at, text, 0o600)
}

// change replaces what stands once in a file.
func (o *overlay) change(path, was, is string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if bytes.Count(text, []byte(was)) != 1 {
		return fmt.Errorf("%s does not have %q once: this program must learn what it has", path, was)
	}
	return o.add(path, bytes.Replace(text, []byte(was), []byte(is), 1))
}

// hook is added to http.Client.
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

// install is a test file of package http_test.
const install = `package http_test

import (
	"net/http"
	"os"
	"sync/atomic"

	"goretry/retry"
	"goretry/retry/retryhttp"
)

// one is a Transport of one attempt, whose errors are the base's.
type one struct{ retryhttp.Transport }

var requests atomic.Int64

func (o *one) RoundTrip(req *http.Request) (*http.Response, error) {
	requests.Add(1)
	resp, err := o.Transport.RoundTrip(req)
	if e, ok := err.(*retry.Error); ok {
		err = e.Last()
	}
	return resp, err
}

// plain hands on.
type plain struct{ http.RoundTripper }

func (p plain) CloseIdleConnections() {
	if rt, ok := p.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		rt.CloseIdleConnections()
	}
}

func init() {
	http.RetryHook = func(rt http.RoundTripper) http.RoundTripper {
		if os.Getenv("RETRY_HOOK") == "plain" {
			return plain{rt}
		}
		return &one{retryhttp.Transport{Base: rt, Policy: retry.Policy{MaxAttempts: 1}}}
	}
}
`

// canceling are the tests that wait for an effect of CancelRequest.
const canceling = "^TestTransportAndServerSharedBodyRace$|././^TransportCancel$"

// result is what became of a run of the tests.
type result struct {
	tests    map[string]string // pass, fail or skip
	texts    map[string]string // what they printed
	requests int               // through a Transport
}

func (r result) String() string {
	n := map[string]int{}
	for _, ended := range r.tests {
		n[ended]++
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped; %d requests through a Transport", n["pass"], n["fail"], n["skip"], r.requests)
}

// test runs net/http's tests. That some of them fail is no error.
func test(overlay, run, hook string) (result, error) {
	cmd := exec.Command("go", "test", "-json", "-count=1", "-vet=off", "-overlay", overlay, "-run", run, "-skip", canceling, "net/http")
	cmd.Env = append(os.Environ(), "RETRY_HOOK="+hook, "GOWORK=off", "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	r := result{tests: map[string]string{}, texts: map[string]string{}}
	for line := range bytes.Lines(out) {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		if _, _ = fmt.Sscanf(event.Output, "requests: %d", &r.requests); event.Test != "" {
			r.texts[event.Test] += event.Output
			switch event.Action {
			case "pass", "fail", "skip":
				r.tests[event.Test] = event.Action
			}
		}
	}
	if len(r.tests) == 0 {
		return r, fmt.Errorf("no test ran: %w\n%s%s", err, stderr.Bytes(), out)
	}
	return r, nil
}
