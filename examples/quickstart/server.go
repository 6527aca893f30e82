package main

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// flaky is a real HTTP server on a loopback port that fails by a script.
type flaky struct {
	url  string
	http http.Server
	done chan struct{}

	random func() float64 // how long an answer takes

	mu      sync.Mutex
	scripts map[string][]step // by path
}

// step is how the server treats one request.
type step func(w http.ResponseWriter, r *http.Request)

// startFlaky starts a server that answers 404 until it has scripts.
func startFlaky(random func() float64) (*flaky, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &flaky{
		url:     "http://" + l.Addr().String(),
		done:    make(chan struct{}),
		random:  random,
		scripts: make(map[string][]step),
	}
	f.http.Handler = f
	go func() {
		defer close(f.done)
		_ = f.http.Serve(l) // returns when closed
	}()
	return f, nil
}

// close cuts the connections that are left and waits until the server has ended.
func (f *flaky) close() {
	f.http.Close()
	<-f.done
}

// script sets what happens to the requests for a path, one step each. The last
// one is repeated.
func (f *flaky) script(path string, steps ...step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scripts[path] = steps
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A few milliseconds, so that an attempt is something to see.
	time.Sleep(time.Duration(4+16*f.random()) * time.Millisecond)
	f.next(r.URL.Path)(w, r)
}

func (f *flaky) next(path string) step {
	f.mu.Lock()
	defer f.mu.Unlock()
	steps := f.scripts[path]
	if len(steps) == 0 {
		return http.NotFound
	}
	if len(steps) > 1 {
		f.scripts[path] = steps[1:]
	}
	return steps[0]
}

// ok answers 200 with v as JSON.
func ok(v any) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(v)
	}
}

// status answers with a code and no more.
func status(code int) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
	}
}

// busy answers with a code and asks not to be called again for some seconds.
func busy(code, seconds int) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		w.WriteHeader(code)
	}
}

// half promises more of a body than it sends. The server then closes the
// connection, since the client waits for the rest.
func half(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`{"name": "Ada Lo`))
}

// hang keeps the client waiting until it hangs up.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// reset breaks the connection off as a crashed server does: to close with
// unsent data thrown away is a TCP reset, not an orderly end.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	conn.Close()
}

// downHost returns an address at which nobody listens (any more).
func downHost() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
