package websockets_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	"github.com/gorilla/websocket"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

// dial connects. If the server refuses the handshake, the error has its answer.
func dial(ctx context.Context, url string) (*websocket.Conn, error) {
	conn, resp, err := websocket.DefaultDialer.DialContext(ctx, url, nil)
	return conn, answered(resp, err)
}

func dialCoder(ctx context.Context, url string) (*coder.Conn, error) {
	conn, resp, err := coder.Dial(ctx, url, nil)
	return conn, answered(resp, err)
}

// answered returns err, with what the answer to a handshake says, if there was one.
func answered(resp *http.Response, err error) error {
	if err == nil || resp == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, retryhttp.Failure(resp))
}

// subscribe reads messages until ctx ends, or the server refuses for good.
func subscribe(ctx context.Context, policy retry.Policy, url string, handle func([]byte)) error {
	return retry.Supervise(ctx, policy, time.Minute, func(ctx context.Context) error {
		conn, err := dial(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				return err
			}
			handle(message)
		}
	})
}

func subscribeCoder(ctx context.Context, policy retry.Policy, url string, handle func([]byte)) error {
	return retry.Supervise(ctx, policy, time.Minute, func(ctx context.Context) error {
		conn, err := dialCoder(ctx, url)
		if err != nil {
			return err
		}
		defer conn.CloseNow()
		for {
			_, message, err := conn.Read(ctx)
			if err != nil {
				return err
			}
			handle(message)
		}
	})
}

var clients = map[string]func(ctx context.Context, policy retry.Policy, url string, handle func([]byte)) error{
	"gorilla": subscribe,
	"coder":   subscribeCoder,
}

// A server is throttled, then restarts after two messages, and then refuses for good.
// The run waits as long as the 429 says, and plainly after the restart, and ends.
func TestHandshakesAreHeard(t *testing.T) {
	const backoff = time.Second
	for name, subscribe := range clients {
		for _, refusal := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
			t.Run(fmt.Sprintf("%s, %d", name, refusal), func(t *testing.T) {
				var handshakes atomic.Int64
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch handshakes.Add(1) {
					case 1:
						w.Header().Set("Retry-After", "30")
						w.WriteHeader(http.StatusTooManyRequests)
					case 2:
						serve(w, r)
					default:
						w.WriteHeader(refusal)
					}
				}))
				defer server.Close()
				h := retrytest.New(t, retry.Policy{Backoff: retry.Constant(backoff)})
				var got []string
				err := subscribe(t.Context(), h.Policy, "ws"+strings.TrimPrefix(server.URL, "http"), func(message []byte) {
					got = append(got, string(message))
				})
				h.AssertDelays(30*time.Second+backoff, backoff)
				h.AssertReason(retry.ReasonPermanent)
				status, ok := errors.AsType[*retryhttp.StatusError](err)
				if !ok || status.Code != refusal {
					t.Errorf("the error is %v, want status %d", err, refusal)
				}
				if want := []string{"one", "two"}; strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("the messages are %q, want %q", got, want)
				}
			})
		}
	}
}

// An answer means what it means to a Transport, also one that says more than its status and a wait.
func TestHandshakesMeanWhatATransportReads(t *testing.T) {
	for name, subscribe := range clients {
		for _, tt := range []struct {
			about  string
			status int
			header http.Header
			delays []time.Duration
			reason retry.Reason
		}{
			{"a 503 with a limit that is reset in an hour", 503, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"3600"}}, []time.Duration{time.Second}, retry.ReasonPermanent},
			{"a 429 with that limit", 429, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"200"}}, []time.Duration{201 * time.Second}, retry.ReasonPermanent},
			{"at once", 503, http.Header{"Retry-After": {"0"}}, []time.Duration{0}, retry.ReasonPermanent},
			{"a 403 of a limit that has passed", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"0"}}, []time.Duration{time.Second}, retry.ReasonPermanent},
			{"not again", 503, http.Header{"X-Should-Retry": {"false"}}, nil, retry.ReasonRefused},
		} {
			t.Run(name+", "+tt.about, func(t *testing.T) {
				var handshakes atomic.Int64
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if handshakes.Add(1) > 1 {
						w.WriteHeader(http.StatusUnauthorized)
						return
					}
					for name, values := range tt.header {
						w.Header()[name] = values
					}
					http.Error(w, "busy", tt.status)
				}))
				defer server.Close()
				h := retrytest.New(t, retry.Policy{Backoff: retry.Constant(time.Second)})
				err := subscribe(t.Context(), h.Policy, "ws"+strings.TrimPrefix(server.URL, "http"), nil)
				h.AssertDelays(tt.delays...)
				h.AssertReason(tt.reason)
				if status, ok := errors.AsType[*retryhttp.StatusError](err.(*retry.Error).Errs[0]); !ok || status.Code != tt.status || string(status.Body) != "busy\n" {
					t.Errorf("the first error is %+v, want status %d and its body", status, tt.status)
				}
			})
		}
	}
}

// serve sends two messages, and closes as a server that restarts.
func serve(w http.ResponseWriter, r *http.Request) {
	conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	for _, message := range []string{"one", "two"} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
			return
		}
	}
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseServiceRestart, ""), time.Now().Add(time.Second))
	_, _, _ = conn.ReadMessage() // the client's close
}

// A handshake that nobody answers is a connection's failure, which is repeated.
func TestNoAnswerIsRepeated(t *testing.T) {
	for name, subscribe := range clients {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.NotFoundHandler())
			server.Close()
			h := retrytest.New(t, retry.Policy{Backoff: retry.Constant(time.Second), MaxAttempts: 3})
			_ = subscribe(t.Context(), h.Policy, "ws"+strings.TrimPrefix(server.URL, "http"), func([]byte) {})
			h.AssertAttempts(3)
			h.AssertReason(retry.ReasonMaxAttempts)
		})
	}
}
