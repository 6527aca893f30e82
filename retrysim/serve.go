//go:build !js

package main

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"
)

func init() {
	commands["serve"] = command{serve, "try on a page with sliders, for a browser on this machine", "serve -listen 127.0.0.1:8080"}
}

//go:embed page/index.html page/page.css page/page.js page/engine.js
var page embed.FS

// serve serves the page until an interrupt.
func serve(o *options) action {
	listen := "127.0.0.1:8080"
	o.add(param{"listen", &listen, 0, 0, "", "`address` to listen on, with a port; 0: any that is free"})
	return func(ctx context.Context, stdout io.Writer) error {
		if _, _, err := net.SplitHostPort(listen); err != nil {
			return wrong("-listen: %w", err)
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
		if err != nil {
			return fmt.Errorf("%w: name another address by -listen, such as 127.0.0.1:0 for any port that is free", err)
		}
		if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT does not set it
			debug.SetMemoryLimit(memory)
		}
		address, open := reached(l.Addr())
		if open {
			fmt.Fprintln(o.stderr, fitted("retrysim: whoever reaches this machine can have it simulate: -listen 127.0.0.1:8080 is for this machine alone", width(o.stderr)))
		}
		fmt.Fprintf(stdout, "http://%s/\n", address)
		s := &http.Server{
			Handler:           pages(l.Addr()),
			BaseContext:       func(net.Listener) context.Context { return ctx }, // an interrupt ends what is played
			ReadHeaderTimeout: patience,
		}
		defer context.AfterFunc(ctx, func() { _ = s.Close() })()
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

// reached returns the address by which a browser on this machine reaches at, and whether others
// reach it, too.
func reached(at net.Addr) (address string, open bool) {
	tcp, ok := at.(*net.TCPAddr)
	switch {
	case !ok:
		return at.String(), true
	case tcp.IP.IsUnspecified():
		return fmt.Sprintf("localhost:%d", tcp.Port), true
	}
	return at.String(), !tcp.IP.IsLoopback()
}

// memory is what serve may hold before it collects garbage sooner: a little more than
// what the heaviest link needs at any time. Without it that one takes 1.1 GiB.
const memory = 640 << 20

// patience is how long a client may take to send its headers, and to take a scene.
const patience = 10 * time.Second

// pages answers the requests that reach an address. Other sites' pages may not post:
// simulations take time. Nor may they read, whatever a name of theirs is made to point
// at: on the loopback interface only its own names are answered.
func pages(at net.Addr) http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the pattern above is wrong
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("POST /play", servePlay)
	own := http.NewCrossOriginProtection().Handler(mux)
	if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return own
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			http.Error(w, fmt.Sprintf("this server answers to localhost, not to %q", r.Host), http.StatusForbidden)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// loopback reports whether the host of a request, with or without a port, can be
// nothing but this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// servePlay plays the link in the request's body. Each scene is a line of the answer,
// sent at once.
func servePlay(w http.ResponseWriter, r *http.Request) {
	link, err := io.ReadAll(http.MaxBytesReader(w, r.Body, linkBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		http.Error(w, fmt.Sprintf("the link has more than %d bytes", linkBytes), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	control, lines := http.NewResponseController(w), json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	err = play(r.Context(), string(link), func(scene any) error {
		_ = control.SetWriteDeadline(time.Now().Add(patience)) // who reads nothing must not keep a place
		return cmp.Or(lines.Encode(scene), control.Flush())
	})
	if err != nil {
		panic(http.ErrAbortHandler) // nobody reads on, or an interrupt: an answer cut short must not look complete
	}
}
