package harm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// Subject is what may delay, refuse or withhold, with what it is measured against.
type Subject struct {
	Name string

	// With returns a client for a process that has the subject, and Without the same client without
	// it. Both run in a bubble, once for each process, and build what the process shares there. Equal
	// names of Without's are the same client: it is run once.
	With    func(*Process) Client
	Against string
	Without func(*Process) Client
}

// Client makes a call. Its policy goes through [Call.Of].
type Client func(ctx context.Context, c *Call) error

// Process is one of those that call the provider, and what its engineers know.
type Process struct {
	Policy retry.Policy // that suits the answers, without a budget and without guards
	Quota  float64      // its part of the provider's, per second
	Burst  float64      // its part of the provider's bucket
	Peak   int          // the most requests that it had in flight on another day, without the subject
	Store  pace.Store   // where it meets the others
	World  *World
	Until  context.Context // its end
}

// store is a pace.Store in memory, at a distance of a millisecond.
type store struct {
	mu    sync.Mutex
	state pace.State
}

func (s *store) Reserve(ctx context.Context, a pace.Ask) (pace.Slots, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	slots, _, err := s.state.Reserve(float64(time.Now().UnixNano())/1e9, a)
	return slots, err
}

func (s *store) News(context.Context) <-chan struct{} { return nil }

// Of returns the policy for one call, with random numbers of its own.
func (c *Call) Of(p retry.Policy) retry.Policy {
	p.Rand = c.Rand
	return p
}

// Guarded is the subject of a guard in a plain run.
func Guarded(name string, guard func(*Process) retry.Guard) Subject {
	return Subject{Name: name, Against: "policy", Without: Plain, With: func(p *Process) Client {
		p.Policy.Guards = []retry.Guard{guard(p)}
		return Plain(p)
	}}
}

// Plain calls by the process's policy.
func Plain(p *Process) Client {
	return func(ctx context.Context, c *Call) error {
		return retry.Run(ctx, c.Of(p.Policy), func(ctx context.Context) error {
			_, err := c.Send(ctx, 0)
			return err
		})
	}
}

// Once makes one attempt.
func Once(p *Process) Client {
	p.Policy.MaxAttempts = 1
	return Plain(p)
}

// HTTP calls by a Transport. It sets its Base.
func HTTP(t *retryhttp.Transport, method string) Client {
	t.Base = Wire
	return Over(&http.Client{Transport: t}, method)
}

// Over calls by an http.Client, whose requests come to Wire.
func Over(client *http.Client, method string) Client {
	return func(ctx context.Context, c *Call) error {
		ctx = c.With(retryhttp.Idempotent(ctx, true))
		ctx = retryhttp.WithPolicy(ctx, c.Of)
		var body io.Reader
		if method == http.MethodPost {
			body = bytes.NewReader([]byte(`{"stream": true}`))
		}
		req, err := http.NewRequestWithContext(ctx, method, url, body)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return errStatus
		}
		return nil
	}
}

var errStatus = errors.New("the status is not 200")

type callKey struct{}

// With returns a context of the call.
func (c *Call) With(ctx context.Context) context.Context { return context.WithValue(ctx, callKey{}, c) }

// CallOf returns the call of a context.
func CallOf(ctx context.Context) *Call { return ctx.Value(callKey{}).(*Call) }

// Wire brings requests of a call to its server.
var Wire http.RoundTripper = wire{}

type wire struct{}

func (wire) RoundTrip(req *http.Request) (*http.Response, error) {
	c := CallOf(req.Context())
	if req.Body != nil {
		req.Body.Close()
	}
	reply, err := c.Send(req.Context(), 0)
	resp := &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: req, Body: http.NoBody, StatusCode: http.StatusOK}
	if s, ok := errors.AsType[*retryhttp.StatusError](err); ok {
		resp.StatusCode = s.Code
		if s.Hint > 0 {
			resp.Header.Set("Retry-After", strconv.Itoa(int(s.Hint/time.Second)))
		}
		return resp, nil
	}
	if err != nil {
		return nil, err
	}
	resp.Header.Set("X-Ratelimit-Limit-Requests", strconv.Itoa(int(reply.Quota)))
	resp.Header.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(int(reply.InBucket)))
	if req.Method == http.MethodPost {
		resp.Header.Set("Content-Type", "text/event-stream")
		resp.Body = io.NopCloser(bytes.NewReader([]byte("event: delta\ndata: Hello\n\n")))
	}
	return resp, nil
}
