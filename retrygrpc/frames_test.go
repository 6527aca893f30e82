package retrygrpc_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry/retrygrpc"
)

// frames is a server that says in raw HTTP/2 what a Go server cannot be made to say.
type frames struct {
	addr    string
	mu      sync.Mutex
	streams int
}

func (f *frames) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams
}

// wire is a connection of such a server.
type wire struct {
	*http2.Framer
	net.Conn
}

// headers sends a HEADERS frame of names and values.
func (w wire) headers(id uint32, end bool, fields ...string) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	w.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: end})
}

// message sends a DATA frame with one message.
func (w wire) message(id uint32, text string) {
	b, err := proto.Marshal(wrapperspb.String(text))
	if err != nil {
		panic(err)
	}
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b)))
	w.WriteData(id, false, append(prefix, b...))
}

// answer is what a frames does about the nth call.
type answer func(w wire, id uint32, n int)

func serveFrames(t testing.TB, a answer) *frames {
	t.Helper()
	l := listen(t)
	f := &frames{addr: l.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			all.Go(func() {
				defer conn.Close()
				f.serve(conn, a)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return f
}

func (f *frames) serve(conn net.Conn, a answer) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	w := wire{http2.NewFramer(conn, conn), conn}
	w.WriteSettings()
	for {
		frame, err := w.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				w.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				w.WritePing(true, frame.Data)
			}
		case *http2.HeadersFrame:
			f.mu.Lock()
			f.streams++
			n := f.streams
			f.mu.Unlock()
			a(w, frame.StreamID, n)
		}
	}
}

func rst(code http2.ErrCode) answer {
	return func(w wire, id uint32, _ int) { w.WriteRSTStream(id, code) }
}

// page is a proxy's.
func page(status string) answer {
	return func(w wire, id uint32, _ int) {
		w.headers(id, false, ":status", status, "content-type", "text/html")
		w.WriteData(id, true, []byte("<html>no</html>"))
	}
}

func trailersOnly(code string, fields ...string) answer {
	return func(w wire, id uint32, _ int) {
		w.headers(id, true, append([]string{":status", "200", "content-type", "application/grpc", "grpc-status", code}, fields...)...)
	}
}

func TestFrames(t *testing.T) {
	for _, tt := range []struct {
		name            string
		answer          answer
		code            codes.Code
		idempotent, not int // streams that the server sees
	}{
		{"RST CANCEL", rst(http2.ErrCodeCancel), codes.Canceled, 4, 1},
		{"RST INTERNAL_ERROR", rst(http2.ErrCodeInternal), codes.Internal, 4, 1},
		{"RST PROTOCOL_ERROR", rst(http2.ErrCodeProtocol), codes.Internal, 4, 1},
		{"RST with a code that nobody knows", rst(99), codes.Unknown, 4, 1},
		// The known limit: ENHANCE_YOUR_CALM is RESOURCE_EXHAUSTED, as a message is that is too large.
		{"RST ENHANCE_YOUR_CALM", rst(http2.ErrCodeEnhanceYourCalm), codes.ResourceExhausted, 1, 1},
		// Each attempt has grpc's one transparent retry.
		{"RST REFUSED_STREAM", rst(http2.ErrCodeRefusedStream), codes.Unavailable, 8, 2},
		{"GOAWAY with last stream 0", func(w wire, id uint32, _ int) {
			w.WriteGoAway(0, http2.ErrCodeNo, nil)
		}, codes.Unavailable, 8, 2},
		{"connection closed", func(w wire, id uint32, _ int) { w.Close() }, codes.Unavailable, 4, 1},
		{"connection closed after headers", func(w wire, id uint32, _ int) {
			w.headers(id, false, ":status", "200", "content-type", "application/grpc")
			w.Close()
		}, codes.Unavailable, 4, 1},
		{"HTTP 500 with HTML", page("500"), codes.Unknown, 4, 1},
		{"HTTP 503 with HTML", page("503"), codes.Unavailable, 4, 1},
		{"HTTP 429 with HTML", page("429"), codes.Unavailable, 4, 1},
		{"HTTP 401 with HTML", page("401"), codes.Unauthenticated, 1, 1},
		{"HTTP 200 with HTML", page("200"), codes.Unknown, 4, 1},
		{"trailers only, UNAVAILABLE", trailersOnly("14"), codes.Unavailable, 4, 1},
		{"trailers only, RESOURCE_EXHAUSTED", trailersOnly("8"), codes.ResourceExhausted, 4, 1},
		{"trailers only, INTERNAL", trailersOnly("13"), codes.Internal, 1, 1},
		{"trailers only, pushback of 0", trailersOnly("14", "grpc-retry-pushback-ms", "0"), codes.Unavailable, 4, 4},
		{"trailers only, two pushbacks", trailersOnly("14", "grpc-retry-pushback-ms", "0", "grpc-retry-pushback-ms", "0"), codes.Unavailable, 1, 1},
		{"RESOURCE_EXHAUSTED with a content-type beside its headers", func(w wire, id uint32, _ int) {
			w.headers(id, false, ":status", "200", "content-type", "application/grpc")
			w.headers(id, true, "content-type", "application/grpc", "grpc-status", "8")
		}, codes.ResourceExhausted, 1, 1},
		{"RST CANCEL after headers", func(w wire, id uint32, _ int) {
			w.headers(id, false, ":status", "200", "content-type", "application/grpc")
			w.WriteRSTStream(id, http2.ErrCodeCancel)
		}, codes.Canceled, 1, 1},
		{"DATA without headers", func(w wire, id uint32, _ int) { w.WriteData(id, true, nil) }, codes.Internal, 4, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := serveFrames(t, tt.answer)
			cc := dial(t, f.addr, &retrygrpc.Client{Policy: four()})
			for method, want := range map[string]int{get: tt.idempotent, pay: tt.not} {
				before := f.calls()
				_, err := call(within(t), cc, method)
				if got := f.calls() - before; got != want {
					t.Errorf("%s: the server saw %d streams, want %d", method, got, want)
				}
				if got := status.Code(err); got != tt.code {
					t.Errorf("%s: error = %v, want %v", method, err, tt.code)
				}
				if want == 1 && tt.idempotent == 1 && reason(err) != "bare" {
					t.Errorf("%s: error = %v, want it bare", method, err)
				}
			}
		})
	}
}
