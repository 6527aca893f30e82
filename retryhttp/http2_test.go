package retryhttp_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// rawHTTP2 is a server of HTTP/2 frames at the other end of pipes, so that what
// net/http waits for in virtual time costs none.
type rawHTTP2 struct {
	mu       sync.Mutex
	conns    []net.Conn
	requests int                                   // headers seen
	run      int                                   // requests answered
	treat    func(n int) (frame byte, code uint32) // how the n-th request ends: with an answer if 0
}

const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7
	endStream                                                                  = 1
)

func (s *rawHTTP2) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, server)
	go s.serve(server)
	return client, nil
}

func (s *rawHTTP2) serve(conn net.Conn) {
	defer conn.Close()
	out := make(chan []byte, 100)
	defer close(out)
	go func() {
		for b := range out {
			_, _ = conn.Write(b)
		}
	}()
	send := func(kind, flags byte, stream uint32, payload []byte) {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		b = binary.BigEndian.AppendUint32(append(b, flags), stream)
		out <- append(b, payload...)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	send(frameSettings, 0, 0, nil)
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(conn, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		if kind == framePing && flags == 0 {
			send(framePing, 1, 0, payload)
		}
		if kind == frameSettings && flags == 0 {
			send(frameSettings, 1, 0, nil)
		}
		if kind != frameHeaders && kind != frameData || flags&endStream == 0 {
			continue
		}
		s.mu.Lock()
		s.requests++
		end, code := s.treat(s.requests)
		if end == 0 {
			s.run++
		}
		s.mu.Unlock()
		word := binary.BigEndian.AppendUint32(nil, code)
		switch end {
		case 0:
			send(frameHeaders, endStream|4, stream, []byte{0x88}) // :status 200
		case frameReset:
			send(frameReset, 0, stream, word)
		case frameGoAway: // nothing was processed
			send(frameGoAway, 0, 0, append(make([]byte, 4), word...))
		}
	}
}

func TestHTTP2RefusedStreamsAndGoAway(t *testing.T) {
	needHTTP2(t)
	const internalError, refusedStream = 2, 7
	times := func(frame byte, code uint32, n int) func(int) (byte, uint32) {
		return func(i int) (byte, uint32) {
			if i <= n {
				return frame, code
			}
			return 0, 0
		}
	}
	for _, tt := range []struct {
		name     string
		method   string
		stream   bool
		treat    func(int) (byte, uint32)
		requests int
		attempts int // of ours: the other requests are net/http's
		run      int
	}{
		{"refused once, net/http repeats it", "POST", false, times(frameReset, refusedStream, 1), 2, 1, 1},
		{"refused until net/http gives up", "POST", false, times(frameReset, refusedStream, 8), 9, 2, 1},
		{"refused, a stream", "PUT", true, times(frameReset, refusedStream, 1), 2, 2, 1},
		{"refused, a stream that must not run twice", "POST", true, times(frameReset, refusedStream, 1), 1, 1, 0},
		{"reset for another reason", "POST", false, times(frameReset, internalError, 1), 1, 1, 0},
		{"reset for another reason, idempotent", "PUT", false, times(frameReset, internalError, 1), 2, 2, 1},
		{"going away, net/http repeats it", "POST", false, times(frameGoAway, 0, 1), 2, 1, 1},
		{"going away, a stream", "PUT", true, times(frameGoAway, 0, 1), 2, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &rawHTTP2{treat: tt.treat}
				base := &http.Transport{DialContext: s.dial, Protocols: new(http.Protocols)}
				base.Protocols.SetUnencryptedHTTP2(true)
				p, events := recorded(quick)
				var body io.Reader = strings.NewReader("body")
				if tt.stream {
					body = stream("body")
				}
				resp, err := (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(request(t, tt.method, "http://example.com/", body))
				if err == nil {
					read(t, resp)
				} else if tt.run > 0 {
					t.Error(err)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				for _, c := range s.conns {
					c.Close()
				}
				if s.requests != tt.requests || len(events.attempts) != tt.attempts || s.run != tt.run {
					t.Errorf("%d requests in %d attempts, %d answered; want %d, %d, %d; %v",
						s.requests, len(events.attempts), s.run, tt.requests, tt.attempts, tt.run, err)
				}
			})
		})
	}
}

// Two attempts may be in flight on one HTTP/2 connection, and the first be
// canceled, without harm to the second.
func TestHTTP2AttemptsShareAConnection(t *testing.T) {
	for _, name := range []string{"HTTP/2", "h2c"} {
		t.Run(name, func(t *testing.T) {
			v := virtual()
			p := quick
			p.AttemptTimeout, p.Clock = time.Second, v
			s := serveAs(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					v.Advance(p.AttemptTimeout)
					<-r.Context().Done()
				}
			}, protocols[name])
			resp := mustDo(t, s.transport(p), request(t, "PUT", s.URL, strings.NewReader("body")))
			read(t, resp)
			if s.wantRequests(t, 2); resp.ProtoMajor != 2 || s.opened != 1 {
				t.Errorf("%s over %d connections, want HTTP/2 over one", resp.Proto, s.opened)
			}
		})
	}
}

// A POST that is canceled while it asks for a connection has not been sent, one
// that is canceled later may have been. The attempts time out on a virtual clock: the
// first while it dials, the second once the server has its request.
func TestHTTP2PostThatTimesOut(t *testing.T) {
	v := virtual()
	p := quick
	p.AttemptTimeout, p.Clock = time.Second, v
	s := serveAs(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		v.Advance(p.AttemptTimeout)
		<-r.Context().Done()
	}, protocols["HTTP/2"])
	rt := s.transport(p)
	dial := s.base.DialContext
	var dials atomic.Int32
	s.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			v.Advance(p.AttemptTimeout)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if dial != nil {
			return dial(ctx, network, addr)
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	_, err := rt.RoundTrip(request(t, "POST", s.URL, nil))
	if e := wantReason(t, err, retry.ReasonNotIdempotent); e.Attempts != 2 || !errors.Is(err, retry.ErrAttemptTimeout) {
		t.Errorf("error %v, want two attempts", err)
	}
	s.wantRequests(t, 1)
}

// A request whose header is larger than the server takes is not sent, however often.
func TestHeaderThatIsTooLargeIsTriedOnce(t *testing.T) {
	var served atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	server.EnableHTTP2, server.Config.MaxHeaderBytes = true, 1<<10
	server.StartTLS()
	defer server.Close()
	attempts := 0
	p := retry.Policy{Backoff: retry.Constant(0), Hooks: retry.Hooks{AttemptDone: func(context.Context, retry.Attempt) { attempts++ }}}
	client := &http.Client{Transport: &retryhttp.Transport{Policy: p, Base: server.Client().Transport}}
	for i, size := range []int{1, 1 << 20} { // the server says with its first answer how much it takes
		req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Large", strings.Repeat("x", size))
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != (i == 0) || attempts != i+1 || served.Load() != 1 {
			t.Errorf("%d bytes: %v, %d attempts, %d served", size, err, attempts, served.Load())
		}
	}
}
