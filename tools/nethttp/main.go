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
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/goretry/retry/tools/internal/hosted"
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
	without, _, err := test(overlay, run, "plain")
	if err != nil {
		return nil, err
	}
	with, requests, err := test(overlay, run, "retryhttp")
	if err != nil {
		return nil, err
	}
	fmt.Printf("without: %v\nwith:    %v; %d requests through a Transport\n", without, with, requests)
	if requests == 0 {
		return nil, errors.New("no request went through a Transport")
	}
	names := with.WorseThan(without)
	for range 9 {
		if len(names) == 0 {
			break
		}
		again, _, err := test(overlay, hosted.Pattern(names), "retryhttp")
		if err != nil {
			return nil, err
		}
		for _, name := range with.Repeated(again) {
			fmt.Println("passed when repeated:", name.Test)
		}
		names = with.WorseThan(without)
	}
	for _, name := range names {
		worse = append(worse, name.Test+"\n"+with.Texts[name])
	}
	return worse, nil
}

// makeOverlay writes what replaces and adds to files of GOROOT.
func makeOverlay(dir string) (file string, err error) {
	root, err := hosted.Output("", "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	o := hosted.NewOverlay(dir)
	if err := o.Client(); err != nil {
		return "", err
	}
	http := filepath.Join(root, "src/net/http")
	if err := o.Change(filepath.Join(http, "main_test.go"), "v := m.Run()\n", "v := m.Run()\n\tfmt.Println(\"requests:\", requests.Load())\n"); err != nil {
		return "", err
	}
	if err := o.Add(filepath.Join(http, "zz_retry_test.go"), []byte(install)); err != nil {
		return "", err
	}
	return o.File()
}

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

// test runs net/http's tests, and returns how many requests went through a Transport.
func test(overlay, run, hook string) (r hosted.Result, requests int, err error) {
	r, err = hosted.Test(context.Background(), "", []string{"RETRY_HOOK=" + hook, "GOWORK=off", "GOFLAGS="}, "-overlay", overlay, "-run", run, "-skip", canceling, "net/http")
	if _, count, ok := strings.Cut(r.Text, "requests: "); ok {
		_, _ = fmt.Sscan(count, &requests)
	}
	return r, requests, err
}
