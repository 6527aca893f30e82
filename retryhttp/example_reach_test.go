package retryhttp_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// Some APIs, such as Slack's and most that speak GraphQL, say "200 OK" and put the
// failure into the body.
func ExampleTransport_check() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls < 3 {
			w.Header().Set("Retry-After-Ms", "1")
			_, _ = io.WriteString(w, `{"ok": false, "error": "ratelimited"}`)
			return
		}
		_, _ = io.WriteString(w, `{"ok": false, "error": "channel_not_found"}`)
	}))
	defer server.Close()

	check := func(resp *http.Response) error {
		if resp.StatusCode != http.StatusOK {
			return nil // the status decides
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return err
		}
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body)) // for the caller
		var answer struct {
			OK    bool
			Error string
		}
		switch err := json.Unmarshal(body, &answer); {
		case err != nil, answer.OK:
			return err
		case answer.Error == "ratelimited": // it did nothing: a POST may be sent again, after the wait
			return retry.Undone(retry.After(errors.New(answer.Error), 0)) // the wait is the response's Retry-After
		}
		return retry.Stop(errors.New(answer.Error))
	}
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: retry.Policy{Name: "slack", Backoff: retry.Constant(time.Millisecond)},
		Check:  check,
	}}
	resp, err := client.Post(server.URL+"/api/chat.postMessage", "application/json", strings.NewReader(`{"text": "hello"}`))
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	if e, ok := errors.AsType[*retry.Error](retryhttp.GaveUp(resp)); ok {
		fmt.Println(resp.StatusCode, e.Reason, e.Attempts, e.Last())
	}
	// Output: 200 permanent 3 channel_not_found
}

// A signature covers the time, so each attempt needs its own: as AWS Signature
// Version 4 does, though with fewer fields. Prepare sees the headers as they are
// sent.
func ExampleTransport_prepare() {
	secret := []byte("key")
	sign := func(method, path, date string, body []byte) string {
		mac := hmac.New(sha256.New, secret)
		_, _ = fmt.Fprintf(mac, "%s\n%s\n%s\n%x", method, path, date, sha256.Sum256(body))
		return hex.EncodeToString(mac.Sum(nil))
	}
	var dates []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		date := r.Header.Get("X-Date")
		dates = append(dates, date)
		switch {
		case r.Header.Get("Authorization") != sign(r.Method, r.URL.Path, date, body):
			w.WriteHeader(http.StatusForbidden)
		case len(dates) == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: retry.Policy{Backoff: retry.Constant(time.Millisecond)},
		Prepare: func(req *http.Request) error {
			var payload []byte
			if req.GetBody != nil { // http.NewRequest has set it; the Body itself is to be sent
				body, err := req.GetBody()
				if err != nil {
					return err
				}
				defer body.Close()
				if payload, err = io.ReadAll(body); err != nil {
					return err
				}
			}
			date := time.Now().UTC().Format(time.RFC3339Nano)
			req.Header.Set("X-Date", date)
			req.Header.Set("Authorization", sign(req.Method, req.URL.Path, date, payload))
			return nil
		},
	}}
	req, err := http.NewRequest("PUT", server.URL+"/bucket/object", strings.NewReader("content"))
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, len(dates), dates[0] != dates[1])
	// Output: 200 2 true
}

// session keeps the token of an API.
type session struct {
	host  string // whom the token is for
	fetch func(context.Context) (string, error)

	mu    sync.Mutex
	token string
}

func (s *session) authorize(req *http.Request) error {
	if req.URL.Host != s.host {
		return nil // a redirect may lead anywhere: nobody else must see the token
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == "" {
		token, err := s.fetch(req.Context())
		if err != nil {
			return err // nothing was sent: the request will be tried again
		}
		s.token = token
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	return nil
}

var errExpired = errors.New("the token has expired")

// check drops a token that was refused, but only on the first attempt: a token that
// is refused while it is new is not an old one.
func (s *session) check(resp *http.Response) error {
	if resp.StatusCode != http.StatusUnauthorized || resp.Request.URL.Host != s.host || retry.AttemptNumber(resp.Request.Context()) > 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if resp.Request.Header.Get("Authorization") == "Bearer "+s.token { // nobody else has a new one yet
		s.token = ""
	}
	return retry.Undone(errExpired) // a 401 is a refusal: that request did nothing, whatever its method
}

// A token is refreshed once when it was refused, also for a POST without an
// idempotency key.
func ExampleTransport_token() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer new" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()

	fetched := 0
	s := &session{host: server.Listener.Addr().String(), token: "old", fetch: func(context.Context) (string, error) { fetched++; return "new", nil }}
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy:  retry.Policy{Backoff: retry.Constant(0)},
		Prepare: s.authorize,
		Check:   s.check,
	}}
	for range 2 {
		resp, err := client.Post(server.URL+"/orders", "text/plain", strings.NewReader("one book"))
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode, "tokens fetched:", fetched)
	}
	// Output:
	// 201 tokens fetched: 1
	// 201 tokens fetched: 1
}

// Every attempt of a POST has the same key, so a server that knows keys books it once.
func ExampleTransport_idempotencyKey() {
	seen := map[string]bool{}
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen[r.Header.Get("Idempotency-Key")] = true
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusBadGateway) // it may have been booked
		}
	}))
	defer server.Close()

	transport := &retryhttp.Transport{IdempotencyKey: func(*http.Request) string { return rand.Text() }} // crypto/rand
	transport.Policy.Backoff = retry.Constant(time.Millisecond)
	client := &http.Client{Transport: transport}
	resp, err := client.Post(server.URL+"/orders", "text/plain", strings.NewReader("one book"))
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "requests:", requests, "keys:", len(seen))
	// Output: 200 requests: 2 keys: 1
}

// PROPFIND only reads, which the Transport cannot know.
func ExampleIdempotent() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusMultiStatus)
	}))
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Backoff: retry.Constant(time.Millisecond)}}}

	ctx := retryhttp.Idempotent(context.Background(), true)
	req, err := http.NewRequestWithContext(ctx, "PROPFIND", server.URL+"/calendar", nil)
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "at attempt", retry.AttemptNumber(resp.Request.Context()))
	// Output: 207 Multi-Status at attempt 3
}

// One client for all, and a request that is not worth a second attempt.
func ExampleWithPolicy() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: retry.Policy{Backoff: retry.Constant(time.Millisecond)},
		Name:   func(r *http.Request) string { return r.Method + " " + r.Host },
	}}

	once := func(p retry.Policy) retry.Policy {
		p.MaxAttempts = 1
		return p.Named("prefetch")
	}
	ctx := retryhttp.WithPolicy(context.Background(), once)
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	if e, ok := errors.AsType[*retry.Error](retryhttp.GaveUp(resp)); ok {
		fmt.Println(resp.StatusCode, e.Name, e.Attempts)
	}
	// Output: 503 prefetch 1
}

// A response may be what was asked for, or what was left when the retries ended.
func ExampleGaveUp() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{}}
	for _, path := range []string{"/missing", "/busy"} {
		resp, err := client.Get(server.URL + path)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		if e, ok := errors.AsType[*retry.Error](retryhttp.GaveUp(resp)); ok {
			fmt.Println(resp.StatusCode, "gave up:", e.Reason)
			continue
		}
		fmt.Println(resp.StatusCode, "is the answer")
	}
	// Output:
	// 404 is the answer
	// 429 gave up: retry_after
}

// While one host is down, its budget runs out, and that of no other.
func ExampleTransport_budget() {
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer down.Close()
	var hosts retry.PerKey[retry.EarnedBudget] // in a package variable
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: retry.Policy{Backoff: retry.Constant(time.Millisecond)},
		Budget: func(host string) retry.Budget { return hosts.For(host) },
	}}
	for range 4 {
		resp, err := client.Get(down.URL)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		if e, ok := errors.AsType[*retry.Error](retryhttp.GaveUp(resp)); ok {
			fmt.Println(e.Attempts, e.Reason)
		}
	}
	// Output:
	// 3 max_attempts
	// 3 max_attempts
	// 1 budget
	// 1 budget
}

// The connection breaks off twice, and the file is whole. With the flags of
// examples/download the file is a gibibyte.
func ExampleDownload() {
	file := strings.Repeat("0123456789", 10_000)
	connections := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		var out http.ResponseWriter = w
		if connections++; connections < 3 {
			out = &cutOff{w, 40_000}
		}
		http.ServeContent(out, r, "", time.Time{}, strings.NewReader(file))
	}))
	defer server.Close()

	req, err := http.NewRequest("GET", server.URL, nil)
	if err != nil {
		panic(err)
	}
	p := retry.Policy{Name: "download", Backoff: retry.Constant(time.Millisecond)}
	resp, err := retryhttp.Download(context.Background(), p, http.DefaultClient, req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	fmt.Println(string(content) == file, err, connections)
	// Output: true <nil> 3
}

// cutOff is a response whose connection breaks off before there is more of it.
type cutOff struct {
	http.ResponseWriter
	left int
}

func (c *cutOff) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		_, _ = c.ResponseWriter.Write(p[:len(p)+c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// A Transport's MaxResponse keeps a typed call from filling the memory.
func ExampleTransport_maxResponse() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `"`+strings.Repeat("x", 2000)+`"`)
	}))
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{MaxResponse: 1000}}
	req, err := http.NewRequest("GET", server.URL, nil)
	if err != nil {
		panic(err)
	}
	_, err = retryhttp.JSON[string](context.Background(), retry.Policy{}, client, req)
	if e, ok := errors.AsType[*retry.Error](err); ok {
		fmt.Println(e.Reason)
	}
	// Output: permanent
}
