package nats_test

import (
	"context"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/proxytest"
	"github.com/nats-io/nats.go"
)

// A nats.Conn notices a connection that has gone silent by its pings, and connects again. Until
// then all attempts wait on it.
func TestConnectionThatHasGoneSilent(t *testing.T) {
	s := startServer(t, 0, t.TempDir())
	defer s.Shutdown()
	p, err := proxytest.New(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	connect := func(interval time.Duration) *nats.Conn {
		nc, err := nats.Connect("nats://"+p.Addr(), nats.PingInterval(interval), nats.MaxPingsOutstanding(2), nats.ReconnectWait(10*ms), nats.IgnoreDiscoveredServers())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		if err := nc.FlushTimeout(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		return nc
	}
	responder, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer responder.Close()
	if _, err := responder.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := responder.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	pinging, waiting := connect(50*ms), connect(2*time.Minute)
	p.Strike(proxytest.Silent)
	ask := func(nc *nats.Conn, attempts int) error {
		policy := retry.Policy{MaxAttempts: attempts, AttemptTimeout: 300 * ms, Backoff: retry.Constant(10 * ms)}
		_, err := retry.Do(t.Context(), policy, func(ctx context.Context) (*nats.Msg, error) {
			return nc.RequestWithContext(ctx, "echo", []byte("hello"))
		})
		return err
	}
	if err := ask(pinging, 40); err != nil {
		t.Error("with short pings: ", err)
	}
	if err := ask(waiting, 3); err == nil {
		t.Error("nats.go notices without pings: docs/clients.md")
	}
}
