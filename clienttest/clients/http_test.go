package clients_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// httpError has the method that DefaultClassifier has always known.
type httpError struct{ code int }

func (e *httpError) Error() string   { return http.StatusText(e.code) }
func (e *httpError) StatusCode() int { return e.code }

func get(ctx context.Context, base string, hc *http.Client) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base, nil)
	if err != nil {
		return nil, err
	}
	return hc.Do(req)
}

// within gives a client that takes no http.Client its timeout.
func within(ctx context.Context, hc *http.Client) (context.Context, context.CancelFunc) {
	if hc.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, hc.Timeout)
}

// toServer sends every request to one host.
type toServer struct {
	host string
	rt   http.RoundTripper
}

func (t *toServer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = "http", t.host
	return t.rt.RoundTrip(req)
}

// answer is what the server does with a request.
type answer struct {
	name   string
	status int    // 0 if there is none
	hinted bool   // Retry-After says 7 s
	fault  string // "refused", "cut", "timeout"
}

func answers() (all []answer) {
	for _, status := range []int{400, 401, 403, 404, 408, 409, 429, 500, 502, 503, 504} {
		all = append(all, answer{name: fmt.Sprint(status), status: status},
			answer{name: fmt.Sprintf("%d, with a hint", status), status: status, hinted: true})
	}
	for _, fault := range []string{"refused", "cut", "timeout"} {
		all = append(all, answer{name: fault, fault: fault})
	}
	return all
}

// want returns the class that an error should have after a, and the wait.
func (c *client) want(a answer) (class retry.Class, hint time.Duration) {
	heard := a.hinted && c.hears && (c.hearsOnly == 0 || c.hearsOnly == a.status)
	if heard {
		hint = 7 * time.Second
	}
	switch {
	case a.fault == "timeout":
		return timedOut, 0
	case a.fault != "":
		return transient, 0 // nobody can say that a request was not sent: http.Client may have followed a redirect
	case c.statuses[a.status] != unknown:
		return c.statuses[a.status], hint
	case a.status == 429, a.status == 403 && heard:
		return throttled, hint
	case a.status == 504:
		return timedOut, hint
	case a.status == 408, a.status >= 500:
		return transient, hint
	}
	return permanent, 0
}

// Of all answers to real clients, at least 95 of 100 are judged right. The others are
// listed with the client, and why: go test -v prints them.
//
// Unknown is wrong for an answer with a status. It is right for a connection that
// was refused or cut: a run repeats it as if it were Transient, and nobody knows more.
func TestClients(t *testing.T) {
	total := 0
	var wrong []string
	var mu sync.Mutex
	t.Run("all", func(t *testing.T) {
		for _, c := range clients {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				for _, a := range answers() {
					err := c.ask(t, a)
					if err == nil {
						t.Errorf("%s: no error", a.name)
						continue
					}
					v := retry.Policy{}.Judge(err)
					class, hint := v.Class, v.Hint
					switch {
					case a.status != 0:
						class = retry.DefaultClassifier(err) // that it is Unknown is no answer to a status, though a run repeats it
					case class == retry.Unprocessed && a.fault == "refused":
						class = transient // it is certain that nothing was sent, where the client shows it
					}
					right, wait := c.want(a)
					want, listed := c.wrong[a.name]
					if !listed {
						want = right
					}
					isRight := class == right && (hint == wait || class == permanent)
					mu.Lock()
					total++
					if !isRight {
						wrong = append(wrong, fmt.Sprintf("%s: %s: %v, not %v: %s", c.name, a.name, class, right, c.why))
					}
					mu.Unlock()
					switch {
					case listed && isRight:
						t.Errorf("%s: %T is %v, which is right: do not list it: %v", a.name, err, class, err)
					case class != want:
						t.Errorf("%s: %T is %v, want %v: %v", a.name, err, class, want, err)
					case !listed && !isRight:
						t.Errorf("%s: %T asks to wait for %v, want %v: %v", a.name, err, hint, wait, err)
					}
				}
			})
		}
	})
	slices.Sort(wrong)
	t.Logf("%d clients, %d answers, %d judged wrong, %.1f %% right\n%s",
		len(clients), total, len(wrong), 100-100*float64(len(wrong))/float64(total), strings.Join(wrong, "\n"))
	if total != len(clients)*len(answers()) {
		t.Errorf("%d answers, want %d of each client", total, len(answers()))
	}
	if len(wrong)*20 > total {
		t.Error("fewer than 95 of 100 are judged right")
	}
}

// ask has the client ask a server that gives the answer a.
func (c *client) ask(t *testing.T, a answer) error {
	t.Helper()
	over := make(chan struct{})
	var requests atomic.Int64
	server := httptest.NewServer(c.handler(a, over, func() { requests.Add(1) }))
	defer server.Close()
	base := server.URL
	if a.fault == "refused" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		base = "http://" + l.Addr().String()
		l.Close()
	}
	hc := &http.Client{Transport: &toServer{strings.TrimPrefix(base, "http://"), &http.Transport{DisableKeepAlives: true}}}
	if a.fault == "timeout" {
		hc.Timeout = 100 * time.Millisecond
	}
	defer close(over)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("the client hangs"))
	defer cancel()
	err := c.call(ctx, base, hc, true)
	if got, most := requests.Load(), int64(max(1, c.most)); got > most {
		t.Errorf("%s: %d requests, want at most %d: its own retries should be off", a.name, got, most)
	}
	return err
}

// handler gives the answer a, after it has called seen. It gives none until over is closed
// if a says so.
func (c *client) handler(a answer, over <-chan struct{}, seen func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seen()
		switch a.fault {
		case "cut":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
			return
		case "timeout":
			select {
			case <-r.Context().Done(): // which net/http does not see before the body is read
			case <-over:
			}
			return
		}
		if a.hinted {
			w.Header().Set("Retry-After", "7")
		}
		body := fmt.Sprintf(`{"error": {"code": %[1]d, "message": "x", "type": "x", "reason": "x", "root_cause": []}, "status": %[1]d, "code": %[1]d, "message": "x"}`, a.status)
		if c.body != nil {
			body = c.body(a)
		}
		kind := "application/json"
		if strings.HasPrefix(body, "<") {
			kind = "application/xml"
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(body))
	}
}
