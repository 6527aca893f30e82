package retryhttp_test

import (
	"context"
	"expvar"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

var silentConns = expvar.NewMap("silent_conns") // by the peer's address

// Connections that had gone silent are counted and logged. Many at once mean that a host has
// died, or that a network forgets connections that are idle for long.
func ExampleTransport_dropped() {
	_ = &http.Client{Transport: &retryhttp.Transport{
		Policy: retry.Policy{AttemptTimeout: 2 * time.Second},
		Dropped: func(ctx context.Context, conn httptrace.GotConnInfo) {
			peer := conn.Conn.RemoteAddr().String()
			silentConns.Add(peer, 1)
			slog.WarnContext(ctx, "closed a silent connection", "peer", peer, "idle", conn.IdleTime, "attempt", retry.AttemptNumber(ctx))
		},
	}}
	// Output:
}
