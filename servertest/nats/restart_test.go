package nats_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go/jetstream"
)

// After all servers were restarted, the request for messages that the client repeats as
// it reconnects may find no leader and get lost. The client makes the next one after two
// missed heartbeats, which is PullExpiry unless PullHeartbeat is set.
func TestDeliveriesAfterAllServersWereRestarted(t *testing.T) {
	if os.Getenv("RETRY_LONG") != "1" {
		t.Skip("deliveries may stop for half a minute: RETRY_LONG=1 runs it")
	}
	for _, expiry := range []time.Duration{2 * time.Second, jetstream.DefaultExpires} {
		t.Run(fmt.Sprint(expiry), func(t *testing.T) {
			servers := startCluster(t)
			js := connect(t, servers.urls...)
			c := jobs(t, js, 0, 3, 30*time.Second)
			handled := make(chan time.Time, 9)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h := &retrynats.Handler{Handle: func(context.Context, jetstream.Msg) error { handled <- time.Now(); return nil }}
			consuming, err := h.Consume(ctx, js, c, jetstream.PullExpiry(expiry))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range servers.names() {
				servers.shutdown(t, name)
				for range servers.lines[name] { // until it has ended
				}
			}
			for _, name := range servers.names() {
				servers.start(t, servers.configs[name])
			}
			for _, name := range servers.names() {
				servers.ready(t, name)
			}
			if err := retry.Run(t.Context(), leaderless, func(ctx context.Context) error {
				_, err := js.Publish(ctx, "jobs", nil)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			published := time.Now()
			stopped := (<-handled).Sub(published)
			t.Logf("with a PullExpiry of %v the first message came %v after it was stored", expiry, stopped.Round(ms))
			if most := expiry + 20*time.Second; stopped > most { // with what elections take
				t.Errorf("the first message came after %v, want at most %v", stopped, most)
			}
			cancel()
			<-consuming.Closed()
		})
	}
}
