//go:build !js

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// heavy is a link that keeps a processor busy for half a minute and more.
const heavy = "rate=240&duration=10m&seeds=20&workers=0&failure=1&policy=attempts%3D90+backoff%3Dconstant(0)"

// served runs serve at an address until stop is called, which returns the exit code
// and what stands on standard error.
func served(t *testing.T, listen string) (url string, stop func() (code int, stderr string)) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, []string{"serve", "-listen", listen}, stdout, &stderr)
		stdout.Close()
		ended <- code
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no address: %v, %s", err, &stderr)
	}
	stop = func() (int, string) { interrupt(); return <-ended, stderr.String() }
	t.Cleanup(interrupt)
	return strings.TrimSuffix(line, "\n"), stop
}

// request makes a request with headers and returns the answer with its body.
func request(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func TestServe(t *testing.T) {
	patient(t)
	url, stop := served(t, "127.0.0.1:0")
	if !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.HasSuffix(url, "/") {
		t.Errorf("the address is %q", url)
	}
	for path, kind := range map[string]string{"": "text/html", "page.css": "text/css", "page.js": "text/javascript", "engine.js": "text/javascript"} {
		resp, body := request(t, "GET", url+path, "")
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || !strings.HasPrefix(got, kind) || len(body) == 0 {
			t.Errorf("/%s: %s, %s, %d bytes", path, resp.Status, got, len(body))
		}
	}
	for _, link := range []string{"rate=20&seeds=6", "rate=20&seeds=1&policy=name%3D%22%3Cb%3E%26%22", "speed=5"} {
		var want bytes.Buffer
		lines := json.NewEncoder(&want)
		lines.SetEscapeHTML(false)
		if err := play(t.Context(), link, lines.Encode); err != nil {
			t.Fatal(err)
		}
		resp, body := request(t, "POST", url+"play", link)
		if resp.StatusCode != 200 || body != want.String() || resp.Header.Get("Content-Type") != "application/x-ndjson" || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %s, %v, %d bytes, want %d", link, resp.Status, resp.Header, len(body), want.Len())
		}
	}
	for _, tt := range []struct {
		method, path, body string
		headers            []string
		want               int
	}{
		{"GET", "play?rate=20", "", nil, 404},
		{"PUT", "play", "", nil, 405},
		{"GET", "static/engine.js", "", nil, 404},
		{"GET", "serve.go", "", nil, 404},
		{"POST", "", "", nil, 405},
		{"POST", "play", strings.Repeat("x", linkBytes), nil, 200},
		{"POST", "play", strings.Repeat("x", linkBytes+1), nil, 413},
		{"POST", "play", "rate=no", []string{"Origin", "https://example.com"}, 403},
		{"POST", "play", "rate=no", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"POST", "play", "rate=no", []string{"Sec-Fetch-Site", "same-site"}, 403}, // another port of this machine
		{"POST", "play", "rate=no", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"POST", "play", "rate=no", []string{"Origin", strings.TrimSuffix(url, "/")}, 200},
		{"GET", "", "", []string{"Host", "example.com"}, 403},
		{"GET", "", "", []string{"Host", "127.0.0.1.example.com:8080"}, 403},
		{"POST", "play", "rate=no", []string{"Host", "example.com:80"}, 403},
		{"GET", "", "", []string{"Host", "10.0.0.1"}, 403},
		{"GET", "", "", []string{"Host", "[::2]:80"}, 403},
		{"GET", "", "", []string{"Host", "localhost"}, 200},
		{"GET", "", "", []string{"Host", "LOCALHOST:8080"}, 200},
		{"GET", "", "", []string{"Host", "127.1.2.3:80"}, 200},
		{"GET", "", "", []string{"Host", "[::1]"}, 200},
		{"GET", "", "", []string{"Host", "[::1]:8080"}, 200},
	} {
		if resp, body := request(t, tt.method, url+tt.path, tt.body, tt.headers...); resp.StatusCode != tt.want {
			t.Errorf("%s /%s %q: %s, want %d: %s", tt.method, tt.path, tt.headers, resp.Status, tt.want, body)
		}
	}
	if code, stderr := stop(); code != 0 || stderr != "" {
		t.Errorf("after the interrupt: exit code %d, %q", code, stderr)
	}
}

// Who listens for other machines is called by any name.
func TestServeOtherMachines(t *testing.T) {
	url, _ := served(t, "0.0.0.0:0")
	_, port, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
	if resp, _ := request(t, "GET", "http://127.0.0.1:"+port+"/", "", "Host", "example.com"); resp.StatusCode != 200 {
		t.Errorf("%s for example.com", resp.Status)
	}
	if resp, _ := request(t, "POST", "http://127.0.0.1:"+port+"/play", "", "Host", "example.com", "Origin", "https://example.org"); resp.StatusCode != 403 {
		t.Errorf("%s for another site's page", resp.Status)
	}
}

// The address that is written is one for a browser here. Who listens to others is told so.
func TestServeAddress(t *testing.T) {
	const open = "retrysim: whoever reaches this machine can have it simulate: -listen 127.0.0.1:8080 is for this machine alone\n"
	for listen, want := range map[string]struct{ host, stderr string }{
		"127.0.0.1:0": {"127.0.0.1", ""},
		"[::1]:0":     {"[::1]", ""},
		"localhost:0": {"127.0.0.1", ""},
		"0.0.0.0:0":   {"localhost", open},
		":0":          {"localhost", open},
		"[::]:0":      {"localhost", open},
	} {
		if strings.Contains(listen, "::") {
			l, err := net.Listen("tcp", listen)
			if err != nil {
				continue // without IPv6
			}
			l.Close()
		}
		url, stop := served(t, listen)
		if !strings.HasPrefix(url, "http://"+want.host+":") {
			t.Errorf("-listen %s writes %s, want http://%s:…", listen, url, want.host)
		}
		if resp, body := request(t, "GET", url, ""); resp.StatusCode != 200 || !strings.Contains(body, "<title>") {
			t.Errorf("-listen %s: %s answers %s", listen, url, resp.Status)
		}
		if code, stderr := stop(); code != 0 || stderr != want.stderr {
			t.Errorf("-listen %s: exit code %d, %q, want %q", listen, code, stderr, want.stderr)
		}
	}
}

func TestServeCannotListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-listen", l.Addr().String()}, 1, fmt.Sprintf("retrysim: listen tcp %v: bind: ", l.Addr())},
		{[]string{"-listen", "localhost"}, 2, "retrysim: -listen: address localhost: missing port in address\nfor example: retrysim serve -listen 127.0.0.1:8080"},
		{[]string{"-format", "json"}, 2, "retrysim: -format: no such flag\nfor example: retrysim serve"},
		{[]string{"now"}, 2, "retrysim: want flags only, not \"now\"\nfor example: retrysim serve"},
	} {
		out, errs, code := retrysim(t.Context(), append([]string{"serve"}, tt.args...)...)
		if tt.code == 1 && !strings.HasSuffix(errs, ": name another address by -listen, such as 127.0.0.1:0 for any port that is free\n") {
			t.Errorf("on a busy port: %q", errs)
		}
		if out != "" || code != tt.code || !strings.HasPrefix(errs, tt.want) || strings.Count(errs, "\n") != tt.code {
			t.Errorf("serve %q: exit code %d, %q, %q", tt.args, code, out, errs)
		}
	}
}

// A run ends with its request, and all of them end with an interrupt.
func TestServeEndsRuns(t *testing.T) {
	url, stop := served(t, "127.0.0.1:0")
	post := func(ctx context.Context) (ended chan error) {
		ended = make(chan error, 1)
		req, err := http.NewRequestWithContext(ctx, "POST", url+"play", strings.NewReader(heavy))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
			}
			ended <- err
		}()
		return ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := post(ctx)
	await(t, func() bool { return len(playing) == 1 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that was canceled: %v", err)
	}
	await(t, func() bool { return len(playing) == 0 })

	cut := post(t.Context())
	await(t, func() bool { return len(playing) == 1 })
	if code, stderr := stop(); code != 0 || stderr != "" {
		t.Errorf("interrupted while it plays: exit code %d, %q", code, stderr)
	}
	if err := <-cut; err == nil {
		t.Error("the answer that was cut off looks complete")
	}
	await(t, func() bool { return len(playing) == 0 })
}

// await waits until something holds, for less time than the heavy link is played.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(linkTime / 2); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v", linkTime/2)
		}
	}
}

// A client that reads nothing does not keep its place.
func TestServeGivesUpWhoDoesNotRead(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	began := time.Now()
	servePlay(w, httptest.NewRequest("POST", "/play", strings.NewReader("rate=20&seeds=2")))
	if len(w.set) != 2 || strings.Count(w.Body.String(), "\n") != 2 {
		t.Fatalf("%d deadlines for %d bytes, want one for each of two scenes", len(w.set), w.Body.Len())
	}
	for _, at := range w.set {
		if at.Before(began.Add(patience)) || at.After(time.Now().Add(patience)) {
			t.Errorf("a deadline %v after the start", at.Sub(began))
		}
	}
}

type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// The heaviest links that are allowed: requests that pile up in a queue, and requests
// that are on their way for ever.
func TestServeMemory(t *testing.T) {
	notUnderRace(t)
	long(t)
	served(t, "127.0.0.1:0") // sets the memory limit
	const policy = "&policy=attempts%3D90+backoff%3Dconstant(0)"
	for _, link := range []string{"rate=250&duration=10m" + policy, "rate=250&duration=10m&network=1h" + policy} {
		debug.FreeOSMemory()
		ctx, most := t.Context(), make(chan uint64)
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			var peak uint64
			for ctx.Err() == nil {
				samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
				metrics.Read(samples)
				peak = max(peak, samples[0].Value.Uint64()-samples[1].Value.Uint64())
				time.Sleep(10 * time.Millisecond)
			}
			most <- peak
		}()
		scenes := 0
		err := play(t.Context(), link, func(any) error { scenes++; return nil })
		cancel()
		peak := <-most
		t.Logf("%s: %d MiB, %d scenes", link, peak>>20, scenes)
		if err != nil || peak > 1<<30 || peak < 200<<20 {
			t.Errorf("%s: %v, %d MiB, want less than 1024, and more than 200 or it is not heavy", link, err, peak>>20)
		}
	}
}
