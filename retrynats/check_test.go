package retrynats_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestCheck(t *testing.T) {
	const head = "retrynats: consumer worker of stream JOBS: "
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		change func(*jetstream.ConsumerConfig)
		maxAge time.Duration
		want   []string
	}{
		{name: "a consumer as it should be"},
		{name: "acknowledged by nobody", change: func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy },
			want: []string{"AckPolicy is AckNone: set AckExplicitPolicy"}},
		{name: "acknowledged by later ones", change: func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy },
			want: []string{"AckPolicy is AckAll: set AckExplicitPolicy"}},
		{name: "as many deliveries as attempts", policy: retry.Policy{MaxAttempts: 5}, change: func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 },
			want: []string{"MaxDeliver is 5, and the policy allows 5 deliveries: set MaxDeliver -1"}},
		{name: "fewer deliveries than attempts", change: func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1 },
			want: []string{"MaxDeliver is 1, and the policy allows 3 deliveries: set MaxDeliver -1"}},
		{name: "one delivery more than attempts", policy: retry.Policy{MaxAttempts: 5}, change: func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 6 }},
		{name: "MaxDeliver not set", change: func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 0 }},
		{name: "any MaxDeliver without a limit on attempts", policy: retry.Policy{MaxAttempts: retry.Unlimited}, change: func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1 << 30 },
			want: []string{"MaxDeliver is 1073741824, and the policy allows any number of them: set MaxDeliver -1"}},
		{name: "a limit on time alone, which allows one for each millisecond", policy: retry.Policy{MaxElapsed: time.Hour}, change: func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 3600_000 },
			want: []string{"MaxDeliver is 3600000, and the policy allows 3600000 deliveries: set MaxDeliver -1"}},
		{name: "a BackOff", change: func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{time.Second} },
			want: []string{"BackOff is set and takes the place of AckWait: set none, the policy has its own"}},
		{name: "messages end, retries do not", maxAge: time.Hour,
			want: []string{"the stream deletes messages after 1h0m0s, also those that wait: set Policy.MaxElapsed below that, or MaxAge 0"}},
		{name: "messages end with the retries", maxAge: time.Hour, policy: retry.Policy{MaxElapsed: time.Hour},
			want: []string{"the stream deletes messages after 1h0m0s, also those that wait: set Policy.MaxElapsed below that, or MaxAge 0"}},
		{name: "messages outlive the retries", maxAge: time.Hour, policy: retry.Policy{MaxElapsed: time.Hour - 1}},
		{name: "messages outlive the shortest of retries", maxAge: time.Hour, policy: retry.Policy{MaxElapsed: 1}},
		{name: "the shortest AckWait", change: func(c *jetstream.ConsumerConfig) { c.AckWait = 1 }},
		{name: "no AckWait", change: func(c *jetstream.ConsumerConfig) { c.AckWait = 0 },
			want: []string{"AckWait is 0s: set the longest time in which a crash may go unnoticed, such as 30s"}},
		{name: "all of it", maxAge: 1, change: func(c *jetstream.ConsumerConfig) {
			*c = jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 2, BackOff: []time.Duration{1}, AckWait: -1}
		}, want: []string{
			"AckPolicy is AckNone: set AckExplicitPolicy",
			"MaxDeliver is 2, and the policy allows 3 deliveries: set MaxDeliver -1",
			"BackOff is set and takes the place of AckWait: set none, the policy has its own",
			"the stream deletes messages after 1ns, also those that wait: set Policy.MaxElapsed below that, or MaxAge 0",
			"AckWait is -1ns: set the longest time in which a crash may go unnoticed, such as 30s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := newFakeQueue(&journal{})
			q.stream.Config.MaxAge = tt.maxAge
			if tt.change != nil {
				tt.change(&q.info.Config)
			}
			h := &retrynats.Handler{Policy: tt.policy, Handle: func(context.Context, jetstream.Msg) error { return nil }}
			err := h.Check(t.Context(), fakeJetStream{q: q}, fakeConsumer{q: q})
			text := ""
			if err != nil {
				text = err.Error()
			}
			want := ""
			if len(tt.want) > 0 {
				want = head + strings.Join(tt.want, "\n"+head)
			}
			if text != want {
				t.Errorf("Check() =\n%s\nwant\n%s", text, want)
			}
			if _, err := h.Consume(t.Context(), fakeJetStream{q: q}, fakeConsumer{q: q}); want != "" && fmt.Sprint(err) != want {
				t.Errorf("Consume() = %v, want Check's objections", err)
			}
			q.Stop()
		})
	}
}

func TestConsumeTellsWhyNot(t *testing.T) {
	handle := func(context.Context, jetstream.Msg) error { return nil }
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tt := range map[string]struct {
		h    retrynats.Handler
		q    func(*fakeQueue)
		ctx  context.Context
		want string
		is   error
	}{
		"nil Handle":             {want: "retrynats: Handler.Handle is nil"},
		"the consumer is gone":   {h: retrynats.Handler{Handle: handle}, ctx: canceled, want: "retrynats: consumer: context canceled", is: context.Canceled},
		"the stream is gone":     {h: retrynats.Handler{Handle: handle}, q: func(q *fakeQueue) { q.streamErr = errDown }, want: "retrynats: stream JOBS: down", is: errDown},
		"the subscription fails": {h: retrynats.Handler{Handle: handle}, q: func(q *fakeQueue) { q.err = errDown }, want: "down", is: errDown},
	} {
		q := newFakeQueue(&journal{})
		if tt.q != nil {
			tt.q(q)
		}
		if tt.ctx == nil {
			tt.ctx = t.Context()
		}
		consuming, err := tt.h.Consume(tt.ctx, fakeJetStream{q: q}, fakeConsumer{q: q})
		if consuming != nil || fmt.Sprint(err) != tt.want || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: Consume() = %v, %v, want %s", name, consuming, err, tt.want)
		}
	}
}

// A server before 2.10.4 takes no reason: it would ignore the word, and deliver the
// dead message again.
func TestReasonIsToldToServersThatTakeOne(t *testing.T) {
	for version, want := range map[string]string{
		"":               "term",
		"2.9.25":         "term",
		"2.10.0":         "term",
		"2.10.3":         "term",
		"2.10.4":         "term permanent",
		"2.11.0-preview": "term permanent",
		"2.15.2":         "term permanent",
		"3.0.0":          "term permanent",
		"nightly":        "term",
	} {
		conn := connectTo(t, version)
		j := &journal{}
		synctest.Test(t, func(t *testing.T) {
			q := newFakeQueue(j)
			q.conn = conn
			stop := q.consume(t, &retrynats.Handler{Handle: func(context.Context, jetstream.Msg) error { return retry.Stop(errDown) }})
			q.give(&fakeMsg{j: j, deliveries: 1})
			synctest.Wait()
			q.Stop()
			stop()
		})
		if want = "0s " + want; j.String() != want {
			t.Errorf("a server of version %q is told %q, want %q", version, j, want)
		}
	}
}

// connectTo returns a connection to a server that says it is of this version, and can do
// nothing else.
func connectTo(t *testing.T, version string) *nats.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "INFO {\"version\":%q,\"max_payload\":1024}\r\n", version)
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if lines.Text() == "PING" {
				fmt.Fprint(c, "PONG\r\n")
			}
		}
	}()
	nc, err := nats.Connect("nats://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
