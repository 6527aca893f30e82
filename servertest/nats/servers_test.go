package nats_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const ms = time.Millisecond

var errDown = errors.New("down")

// patience is how long a test waits for what must happen, however slow the machine is.
const patience = 2 * time.Minute

// In the environment, role has the test binary do something else than test.
const role = "RETRYNATS_TEST_ROLE"

func TestMain(m *testing.M) {
	as := os.Getenv(role)
	if as == "" {
		os.Exit(m.Run())
	}
	go func() { // ends with its parent, whatever ends that
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	switch as {
	case "server":
		serve()
	case "crashing consumer":
		crash()
	case "quota caller":
		callQuota()
	}
}

// child starts this binary in another role. Its lines are what it prints.
func child(t *testing.T, as string, env ...string) (p *os.Process, lines <-chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), role+"="+as), env...)
	cmd.Stderr = os.Stderr
	if as == "crashing consumer" {
		cmd.Stderr = nil // its panics
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		_, err = cmd.StdinPipe() // open as long as this process lives
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(c)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			c <- scan.Text()
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	return cmd.Process, c
}

// single starts a server in this process, and returns a connection to it.
func single(t *testing.T) (jetstream.JetStream, *server.Server) {
	t.Helper()
	s := startServer(t, -1, t.TempDir())
	return connect(t, s.ClientURL()), s
}

func startServer(t testing.TB, port int, dir string) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return s
}

func connect(t testing.TB, urls ...string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*ms), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	// A request to a cluster that has no leader gets no answer: then ask again.
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// leaderless asks a cluster until it answers.
var leaderless = retry.Policy{
	MaxElapsed:     patience,
	AttemptTimeout: 10 * time.Second,
	Backoff:        retry.Constant(200 * ms),
	Classify: func(err error) retry.Class {
		if _, ok := errors.AsType[*jetstream.APIError](err); ok || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) {
			return retry.Transient
		}
		return retry.Permanent
	},
}

// jobs makes a work queue of n messages, "0", "1" and so on, and a consumer for it. A
// cluster needs a while to elect.
func jobs(t *testing.T, js jetstream.JetStream, n, replicas int, ackWait time.Duration) jetstream.Consumer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := retry.Do(ctx, leaderless, func(ctx context.Context) (jetstream.Consumer, error) {
		if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy, Replicas: replicas}); err != nil {
			return nil, err
		}
		return js.CreateOrUpdateConsumer(ctx, "JOBS", jetstream.ConsumerConfig{
			Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: 1000})
	})
	for i := 0; i < n && err == nil; i++ {
		err = retry.Run(ctx, leaderless, func(ctx context.Context) error {
			_, err := js.Publish(ctx, "jobs", fmt.Append(nil, i), jetstream.WithMsgID(fmt.Sprint(i)))
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits until what holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * ms) {
		if time.Now().After(end) {
			t.Fatal("never ", what)
		}
	}
}

// empty reports whether the work queue has no message left.
func empty(t *testing.T, js jetstream.JetStream) bool {
	s, err := js.Stream(t.Context(), "JOBS")
	return err == nil && s.CachedInfo().State.Msgs == 0
}

// cluster is three servers, each a process, so that they can be killed.
type cluster struct {
	urls    []string
	servers map[string]*os.Process // by name, as the following
	configs map[string]serverConfig
	lines   map[string]<-chan string // what they say
}

// start starts a server, for the first time or again.
func (c *cluster) start(t *testing.T, conf serverConfig) {
	t.Helper()
	text, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	c.configs[conf.Name] = conf
	c.servers[conf.Name], c.lines[conf.Name] = child(t, "server", "RETRYNATS_TEST_SERVER="+string(text))
}

// names returns the names of the servers.
func (c *cluster) names() []string { return slices.Sorted(maps.Keys(c.servers)) }

// shutdown has a server end as it does before an upgrade.
func (c *cluster) shutdown(t *testing.T, name string) {
	t.Helper()
	if err := c.servers[name].Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

// ready waits until a server can be used.
func (c *cluster) ready(t *testing.T, name string) {
	t.Helper()
	select {
	case line := <-c.lines[name]:
		if line != "ready" {
			t.Fatalf("%s says %q", name, line)
		}
	case <-time.After(patience):
		t.Fatalf("%s does not start", name)
	}
}

// kill ends a server as kill -9 does.
func (c *cluster) kill(t *testing.T, name string) {
	t.Helper()
	if err := c.servers[name].Kill(); err != nil {
		t.Fatal(err)
	}
	for range c.lines[name] { // until it has ended
	}
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	return startServers(t, 3)
}

// startServers starts a cluster, or one server, which needs no others.
func startServers(t *testing.T, size int) *cluster {
	t.Helper()
	free := make([]net.Listener, 2*size)
	for i := range free {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		free[i] = l
	}
	var ports []int
	for _, l := range free {
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		_ = l.Close()
	}
	c := &cluster{servers: map[string]*os.Process{}, configs: map[string]serverConfig{}, lines: map[string]<-chan string{}}
	for i := range size {
		conf := serverConfig{Name: fmt.Sprint("server-", i), Port: ports[i], Dir: t.TempDir()}
		if size > 1 {
			conf.RoutePort = ports[size+i]
			for _, port := range ports[size:] {
				conf.Routes = append(conf.Routes, fmt.Sprint("nats://127.0.0.1:", port))
			}
		}
		c.start(t, conf)
		c.urls = append(c.urls, fmt.Sprint("nats://127.0.0.1:", conf.Port))
	}
	for name := range c.lines {
		c.ready(t, name)
	}
	return c
}

type serverConfig struct {
	Name            string
	Port, RoutePort int
	Routes          []string
	Dir             string
}

// serve is the server's process.
func serve() {
	var conf serverConfig
	err := json.Unmarshal([]byte(os.Getenv("RETRYNATS_TEST_SERVER")), &conf)
	opts := &server.Options{
		ServerName: conf.Name, Host: "127.0.0.1", Port: conf.Port, JetStream: true, StoreDir: conf.Dir, NoSigs: true,
	}
	if conf.RoutePort > 0 {
		opts.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: conf.RoutePort}
	}
	for _, route := range conf.Routes {
		u, e := url.Parse(route)
		err = cmp.Or(err, e)
		opts.Routes = append(opts.Routes, u)
	}
	if err == nil {
		var s *server.Server
		if s, err = server.NewServer(opts); err == nil {
			s.Start()
			if s.ReadyForConnections(patience) {
				go func() {
					interrupted := make(chan os.Signal, 1)
					signal.Notify(interrupted, os.Interrupt)
					<-interrupted
					s.Shutdown()
				}()
				fmt.Println("ready")
				s.WaitForShutdown()
				return
			}
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

// ledger is what the handlers of a test did to each message.
type ledger struct {
	mu   sync.Mutex
	runs map[string][]*handled
}

// number returns the number of a delivery.
func number(msg jetstream.Msg) uint64 {
	meta, err := msg.Metadata()
	if err != nil {
		panic(err)
	}
	return meta.NumDelivered
}

// handled is one run of a handler.
type handled struct {
	delivery   uint64
	start, end time.Time
	err        error
	word       string // what the server was told
	lost       error  // why it may not have heard
	delay      time.Duration
}

func (l *ledger) begin(msg jetstream.Msg) *handled {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[string][]*handled{}
	}
	h := &handled{delivery: number(msg), start: time.Now()}
	l.runs[string(msg.Data())] = append(l.runs[string(msg.Data())], h)
	return h
}

// of returns a copy of a message's runs.
func (l *ledger) of(msg string) []handled {
	l.mu.Lock()
	defer l.mu.Unlock()
	var runs []handled
	for _, h := range l.runs[msg] {
		runs = append(runs, *h)
	}
	return runs
}

func (l *ledger) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// watched is a consumer whose ledger learns what the server is told.
type watched struct {
	jetstream.Consumer
	l *ledger
}

func (w watched) Consume(handle jetstream.MessageHandler, opts ...jetstream.PullConsumeOpt) (jetstream.ConsumeContext, error) {
	return w.Consumer.Consume(func(msg jetstream.Msg) { handle(&watchedMsg{Msg: msg, l: w.l}) }, opts...)
}

type watchedMsg struct {
	jetstream.Msg
	l   *ledger
	run *handled // nil if the handler did not run
}

func (m *watchedMsg) told(word string, err error) error {
	m.l.set(func() {
		if m.run != nil {
			m.run.word, m.run.lost = word, err
		}
	})
	return err
}

func (m *watchedMsg) DoubleAck(ctx context.Context) error { return m.told("ack", m.Msg.DoubleAck(ctx)) }
func (m *watchedMsg) Nak() error                          { return m.told("nak", m.Msg.Nak()) }
func (m *watchedMsg) NakWithDelay(d time.Duration) error {
	m.l.set(func() { m.run.delay = d })
	return m.told("retry", m.Msg.NakWithDelay(d))
}
func (m *watchedMsg) TermWithReason(reason string) error {
	return m.told("dead: "+reason, m.Msg.TermWithReason(reason))
}

// handle wraps a handler of a test so that its ledger knows what it did.
func (l *ledger) handle(h func(context.Context, jetstream.Msg) error) func(context.Context, jetstream.Msg) error {
	return func(ctx context.Context, msg jetstream.Msg) error {
		run := l.begin(msg)
		if w, ok := msg.(*watchedMsg); ok {
			w.run = run
		}
		err := h(ctx, msg)
		l.set(func() { run.end, run.err = time.Now(), err })
		return err
	}
}
