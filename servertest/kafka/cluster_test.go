package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrykafka"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var errDown = errors.New("down")

// cluster is a fake of a Kafka cluster of one broker, in a synctest bubble.
type cluster struct {
	*kfake.Cluster
	t       *testing.T
	network kfake.VirtualNetwork

	ends []func()
	away atomic.Bool // no client reaches the broker
}

// bubble runs a test on a cluster with topics, in virtual time.
func bubble(t *testing.T, partitions int32, topics []string, f func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t}
		var err error
		c.Cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(c.network.Listen),
			kfake.SeedTopics(partitions, topics...))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		defer func() {
			for _, end := range c.ends {
				end()
			}
		}()
		f(t, c)
	})
}

// dial dials the broker, whose connections break once it is away, or gone for the one who dials.
func (c *cluster) dial(gone *atomic.Bool) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		if c.away.Load() || gone.Load() {
			return nil, errAway
		}
		conn, err := c.network.DialContext(ctx, network, host)
		return &breakable{conn, c, gone}, err
	}
}

var errAway = errors.New("the broker is away")

type breakable struct {
	net.Conn
	c    *cluster
	gone *atomic.Bool
}

func (b *breakable) Write(p []byte) (int, error) {
	if b.c.away.Load() || b.gone.Load() {
		b.Close()
		return 0, errAway
	}
	return b.Conn.Write(p)
}

func (b *breakable) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if b.c.away.Load() || b.gone.Load() {
		b.Close()
		return 0, errAway
	}
	return n, err
}

// client makes a client. The test must close it.
func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(c.dial(new(atomic.Bool)))}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return cl
}

// consumer is a running Handler.
type consumer struct {
	client *kgo.Client
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
	gone   *atomic.Bool // nothing more comes from it
}

// consume runs h on the topic "in".
func (c *cluster) consume(h *retrykafka.Handler, opts ...kgo.Opt) *consumer {
	c.t.Helper()
	return c.consumeUntil(new(atomic.Bool), h, opts...)
}

// consumeUntil runs h until a handler sets gone.
func (c *cluster) consumeUntil(gone *atomic.Bool, h *retrykafka.Handler, opts ...kgo.Opt) *consumer {
	c.t.Helper()
	x := &consumer{done: make(chan error, 1), gone: gone}
	opts = slices.Concat(h.Options("in"), []kgo.Opt{kgo.ConsumerGroup("g"), kgo.Dialer(c.dial(gone))}, opts)
	ctx, cancel := context.WithCancel(c.t.Context())
	x.client, x.cancel = c.client(opts...), cancel
	go func() { x.done <- h.Run(ctx, x.client) }()
	c.ends = append(c.ends, func() {
		if err := x.stop(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, kgo.ErrClientClosed) {
			c.t.Error(err)
		}
	})
	return x
}

// stop ends a consumer orderly, once.
func (x *consumer) stop() (err error) {
	x.once.Do(func() {
		x.cancel()
		err = <-x.done
		x.client.CloseAllowingRebalance()
	})
	return err
}

// kill ends a consumer as kill -9 does, to the cluster: nothing more comes from it.
func (x *consumer) kill() {
	x.gone.Store(true)
	x.stop()
}

// publish writes records of topic "in", one for each value, with the value as its key.
func (c *cluster) publish(values ...string) {
	c.t.Helper()
	cl := c.client()
	defer cl.Close()
	for _, v := range values {
		c.produce(cl, &kgo.Record{Topic: "in", Key: []byte(v), Value: []byte(v)})
	}
}

func (c *cluster) produce(cl *kgo.Client, r *kgo.Record) {
	c.t.Helper()
	if err := cl.ProduceSync(c.t.Context(), r).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// records returns what a topic holds.
func (c *cluster) records(topic string) (all []*kgo.Record) {
	c.t.Helper()
	var most int64
	for _, p := range c.PartitionInfos(topic) {
		most += p.HighWatermark
	}
	cl := c.client(kgo.ConsumeTopics(topic))
	defer cl.Close()
	for int64(len(all)) < most {
		f := cl.PollFetches(c.t.Context())
		if err := f.Err(); err != nil {
			c.t.Fatal(err)
		}
		all = append(all, f.Records()...)
	}
	return all
}

// stored returns how many records a topic holds.
func (c *cluster) stored(topic string) (n int64) {
	for _, p := range c.PartitionInfos(topic) {
		n += p.HighWatermark
	}
	return n
}

// committed returns the group's offset in partition 0 of a topic.
func (c *cluster) committed(topic string) kfake.GroupCommit {
	if g := c.GroupInfo("g"); g != nil {
		if at, ok := g.Commits[topic][0]; ok {
			return at
		}
	}
	return kfake.GroupCommit{Offset: -1}
}

// requests counts those of a kind from now on.
func (c *cluster) requests(kind kmsg.Key) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{Keys: []kmsg.Key{kind}, Count: -1, Observe: true})
}

// log is what happened, each line with the seconds since it was made.
type log struct {
	begun time.Time
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

func newLog() *log { return &log{begun: time.Now(), more: make(chan struct{}, 1<<20)} }

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
	l.more <- struct{}{}
}

// wait waits for n more lines.
func (l *log) wait(t *testing.T, n int) {
	t.Helper()
	never := time.After(10 * time.Minute)
	for range n {
		select {
		case <-l.more:
		case <-never:
			t.Fatalf("nothing else happens after\n\t%s", strings.Join(l.all(), "\n\t"))
		}
	}
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

func (l *log) count(what string) (n int) {
	for _, s := range l.all() {
		if strings.Contains(s, what) {
			n++
		}
	}
	return n
}

func (l *log) want(t *testing.T, want ...string) {
	t.Helper()
	if got := l.all(); !slices.Equal(got, want) {
		t.Errorf("it happened\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// text returns what a record is worth to a test.
func text(r *kgo.Record) string { return string(r.Value) }

// exact is a policy that waits d each time.
func exact(d time.Duration, attempts int) retry.Policy {
	return retry.Policy{Name: "p", MaxAttempts: attempts, Backoff: retry.Constant(d), Rand: func() float64 { return 0 }}
}
