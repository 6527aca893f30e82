package kafka_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry/retrykafka"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A consumer in a process of its own is killed, as kill -9 does, at each of its requests that store
// something, before the broker has it or after it has stored it, and in each handler. Another one
// then goes on. The record "p" succeeds, and "r", behind it in the partition, fails twice and is dead.
//
// Nothing may be lost. go test -run KillTable -v prints the table, of both ways to wait.
func TestKillTable(t *testing.T) {
	type row struct {
		at      string // a request, or a handler
		p, r, d int    // how often each runs at most, and how many dead letters there are
	}
	for _, tt := range []struct {
		name  string
		waits []retrykafka.Wait
		rows  []row
	}{
		{"with a wait topic", []retrykafka.Wait{{Topic: "w1", Delay: 50 * time.Millisecond}}, []row{
			{"note of p, not stored", 1, 2, 1},
			{"note of p, stored", 1, 2, 1},
			{"in p", 2, 2, 1},
			{"in r", 2, 3, 1},
			{"copy, not stored", 2, 3, 1},
			{"copy, stored", 2, 4, 2},
			{"commit of in, not stored", 2, 4, 2},
			{"commit of in, stored", 1, 2, 1},
			{"note of r, not stored", 1, 2, 1},
			{"note of r, stored", 1, 1, 1}, // the start was counted, and its process has died
			{"in r again", 1, 2, 1},
			{"dead letter, not stored", 1, 2, 1},
			{"dead letter, stored", 1, 2, 2},
			{"commit of w1, not stored", 1, 2, 2},
			{"commit of w1, stored", 1, 2, 1},
		}},
		{"in its place", nil, []row{
			{"note of p, not stored", 1, 2, 1},
			{"note of p, stored", 1, 2, 1},
			{"in p", 2, 2, 1},
			{"in r", 2, 3, 1},
			{"note of the wait, not stored", 2, 3, 1},
			{"note of the wait, stored", 1, 2, 1},
			{"note of r, not stored", 1, 2, 1},
			{"note of r, stored", 1, 1, 1},
			{"in r again", 1, 2, 1},
			{"dead letter, not stored", 1, 2, 1},
			{"dead letter, stored", 1, 2, 2},
			{"commit of in, not stored", 1, 2, 2},
			{"commit of in, stored", 1, 2, 1},
		}},
	} {
		request := 0
		for _, row := range tt.rows {
			k := kill{request: -1}
			switch {
			case strings.HasPrefix(row.at, "in "):
				k.handler = row.at
			case strings.HasSuffix(row.at, ", stored"):
				k.request, k.stored = request, true
				request++ // the next row is about the next request
			default:
				k.request = request
			}
			t.Run(tt.name+"/"+row.at, func(t *testing.T) {
				got := killed(t, tt.waits, k)
				t.Logf("%-30s p %d, r %d, dead letters %d", row.at, got.p, got.r, got.dead)
				if got.p < 1 || got.r < 1 || got.dead < 1 {
					t.Error("a record is lost")
				}
				if got.p > row.p || got.r > row.r || got.dead > row.d {
					t.Errorf("want %d, %d and %d at most", row.p, row.r, row.d)
				}
				if got.origins != 1 {
					t.Errorf("the dead letters have %d origins, want one", got.origins)
				}
			})
		}
	}
}

// kill says when a consumer dies.
type kill struct {
	request int // the number of a Produce or OffsetCommit request
	stored  bool
	handler string // the handler of a record
	hangs   bool   // instead, the broker does not answer any such request
}

type result struct{ p, r, dead, origins int }

// killed runs a consumer that dies, and one that does not.
func killed(t *testing.T, waits []retrykafka.Wait, k kill) (got result) {
	c := real(t)
	c.publishReal(t, "p", "r")
	first := c.child(t, waits, k)
	if !first.wait() {
		t.Fatal("it was not killed")
	}
	c.expel(t)
	second := c.child(t, waits, kill{request: -1})
	c.until(t, func() bool {
		in, _ := c.at("in")
		w1, had := c.at("w1")
		return c.high("dead") > 0 && in == c.high("in") && (!had || w1 == c.high("w1"))
	})
	second.kill()
	second.wait()
	for _, line := range append(first.lines, second.lines...) {
		switch line {
		case "run p":
			got.p++
		case "run r":
			got.r++
		}
	}
	origins := map[string]bool{}
	for _, r := range c.read(t, "dead") {
		got.dead++
		origins[header(r, "retry-origin")] = true
	}
	got.origins = len(origins)
	return got
}

// A consumer of many records is killed at one request after the other, of those that it happens to make.
// RETRY_LONG=1 does it more often.
func TestKilledAgainAndAgain(t *testing.T) {
	rounds := 1
	if os.Getenv("RETRY_LONG") != "" {
		rounds = 20
	}
	for range rounds {
		killedAgainAndAgain(t, nil)
		killedAgainAndAgain(t, []retrykafka.Wait{{Topic: "w1", Delay: 50 * time.Millisecond}})
	}
}

func killedAgainAndAgain(t *testing.T, waits []retrykafka.Wait) {
	const records = 60
	c := real(t)
	var values []string
	for i := range records {
		values = append(values, fmt.Sprint([]string{"good", "fails"}[i%3/2], i))
	}
	c.publishReal(t, values...)
	ran := map[string]bool{}
	for lives := 0; ; lives++ {
		k := kill{request: rand.IntN(8 + lives), stored: rand.IntN(2) == 0}
		if lives == 6 {
			k.request = -1
		}
		x := c.child(t, waits, k)
		c.until(t, func() bool {
			select {
			case <-x.ended:
				return true
			default:
			}
			in, _ := c.at("in")
			w1, had := c.at("w1")
			return in == records && (!had || w1 == c.high("w1"))
		})
		x.kill()
		x.wait()
		for _, line := range x.lines {
			ran[line] = true
		}
		if lives == 6 {
			break
		}
		c.expel(t)
	}
	dead := map[string]bool{}
	for _, r := range c.read(t, "dead") {
		dead[text(r)] = true
	}
	for _, v := range values {
		// Those that two kills have hit are dead too, by ErrCrashed.
		if strings.HasPrefix(v, "fails") && !dead[v] || !ran["run "+v] && !dead[v] {
			t.Errorf("record %s ran: %t, and is dead: %t", v, ran["run "+v], dead[v])
		}
	}
	t.Logf("%d dead letters of %d records", c.high("dead"), len(dead))
}

// A handler's panic ends its process at last, after MaxAttempts deliveries, with one dead letter: the
// record is handed on, or buried, before the panic goes on.
func TestAPanicEndsTheProcess(t *testing.T) {
	for _, waits := range [][]retrykafka.Wait{nil, {{Topic: "w1", Delay: 50 * time.Millisecond}}} {
		c := real(t)
		c.publishReal(t, "p", "panics")
		runs := 0
		for range 5 {
			x := c.child(t, waits, kill{request: -1})
			if c.high("dead") == 0 {
				if !x.wait() {
					t.Fatal("the panic did not end the process")
				}
				for _, line := range x.lines {
					if line == "run panics" {
						runs++
					}
				}
				if !strings.Contains(x.stderr.String(), "panic: of the handler") || !strings.Contains(x.stderr.String(), "handleForTests") {
					t.Errorf("the process ended with\n%s", x.stderr.String())
				}
				c.expel(t)
				continue
			}
			x.kill()
			x.wait()
			break
		}
		if runs != 2 {
			t.Errorf("it ran %d times, want 2", runs)
		}
		if dead := c.read(t, "dead"); len(dead) != 1 || header(dead[0], "retry-number") != "2" {
			t.Errorf("the dead letters are %v, want one after two deliveries", dead)
		}
	}
}

// It does so after seconds if the broker does not answer, and the record comes again.
func TestAPanicWithoutABroker(t *testing.T) {
	waits := []retrykafka.Wait{{Topic: "w1", Delay: 50 * time.Millisecond}}
	for _, tt := range []struct {
		waits   []retrykafka.Wait
		request int // that gets no answer
	}{{nil, 1}, {waits, 1}, {waits, 2}} { // the commit, the copy, and the commit after it
		c := real(t)
		c.publishReal(t, "p", "panics")
		x := c.child(t, tt.waits, kill{request: tt.request, hangs: true})
		if !x.wait() || !strings.Contains(x.stderr.String(), "panic: of the handler") {
			t.Errorf("without an answer to request %d the process does not end, or by something else:\n%s", tt.request, x.stderr.String())
		}
		if at, _ := c.at("in"); at > 1 {
			t.Errorf("offset %d is committed, want 1 at most", at)
		}
	}
}

// TestMain is also the main function of the consumers that die.
func TestMain(m *testing.M) {
	if os.Getenv("RETRY_TEST_BROKER") != "" {
		child()
	}
	os.Exit(m.Run())
}

// child consumes until it is killed. It prints what runs.
func child() {
	var waits []retrykafka.Wait
	if d, err := time.ParseDuration(os.Getenv("RETRY_TEST_WAIT")); err == nil {
		waits = []retrykafka.Wait{{Topic: "w1", Delay: d}}
	}
	h := &retrykafka.Handler{
		Policy: exact(50*time.Millisecond, 2), Waits: waits, Dead: "dead", Handle: handleForTests,
		Report: func(err error) { fmt.Fprintln(os.Stderr, err) },
	}
	broker := os.Getenv("RETRY_TEST_BROKER")
	cl, err := kgo.NewClient(append(h.Options("in"), kgo.ConsumerGroup("g"), kgo.SeedBrokers(broker),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) { // also for what the broker calls itself
			return new(net.Dialer).DialContext(ctx, network, broker)
		}))...)
	if err != nil {
		panic(err)
	}
	panic(h.Run(context.Background(), cl))
}

var ranR atomic.Bool

func handleForTests(ctx context.Context, r *kgo.Record) error {
	fmt.Println("run", text(r))
	at := "in " + text(r)
	if text(r) == "r" && ranR.Swap(true) {
		at += " again"
	}
	if os.Getenv("RETRY_TEST_KILL") == at {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			panic(err)
		}
		self.Kill()
		<-ctx.Done()
	}
	switch {
	case text(r) == "r", strings.HasPrefix(text(r), "fails"):
		return errDown
	case text(r) == "panics":
		panic("of the handler")
	}
	return nil
}

// realCluster is a fake cluster on the loopback interface.
type realCluster struct{ *kfake.Cluster }

func real(t *testing.T) realCluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "w1", "dead"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return realCluster{c}
}

func (c realCluster) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func (c realCluster) publishReal(t *testing.T, values ...string) {
	t.Helper()
	cl := c.client(t)
	for _, v := range values {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func (c realCluster) read(t *testing.T, topic string) (all []*kgo.Record) {
	t.Helper()
	cl := c.client(t, kgo.ConsumeTopics(topic))
	for int64(len(all)) < c.high(topic) {
		all = append(all, cl.PollFetches(t.Context()).Records()...)
	}
	return all
}

func (c realCluster) high(topic string) int64 { return c.PartitionInfo(topic, 0).HighWatermark }

// at returns the group's offset, if it has one.
func (c realCluster) at(topic string) (offset int64, ok bool) {
	if g := c.GroupInfo("g"); g != nil {
		at, ok := g.Commits[topic][0]
		return at.Offset, ok
	}
	return 0, false
}

// expel has the group's members leave, rather than wait for the ends of their sessions.
func (c realCluster) expel(t *testing.T) {
	t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = "g"
	for _, m := range c.GroupInfo("g").Members {
		r := kmsg.NewLeaveGroupRequestMember()
		r.MemberID = m.MemberID
		req.Members = append(req.Members, r)
	}
	if len(req.Members) == 0 {
		return
	}
	if _, err := req.RequestWith(t.Context(), c.client(t)); err != nil {
		t.Fatal(err)
	}
}

func (c realCluster) until(t *testing.T, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("it does not come to an end")
		}
	}
}

// process is a consumer.
type process struct {
	cmd    *exec.Cmd
	lines  []string
	stderr strings.Builder

	started, ended chan struct{}
}

// child starts a consumer that reaches the broker through a proxy, which kills it.
func (c realCluster) child(t *testing.T, waits []retrykafka.Wait, k kill) *process {
	t.Helper()
	x := &process{cmd: exec.Command(os.Args[0]), started: make(chan struct{}), ended: make(chan struct{})}
	proxy := listen(t, c.ListenAddrs()[0], k, x.kill)
	x.cmd.Env = append(os.Environ(), "RETRY_TEST_BROKER="+proxy, "RETRY_TEST_KILL="+k.handler)
	if waits != nil {
		x.cmd.Env = append(x.cmd.Env, "RETRY_TEST_WAIT="+waits[0].Delay.String())
	}
	x.cmd.Stderr = &x.stderr
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	close(x.started)
	go func() {
		defer close(x.ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			x.lines = append(x.lines, s.Text())
		}
		_ = x.cmd.Wait()
	}()
	t.Cleanup(func() { x.kill(); x.wait() })
	return x
}

func (x *process) kill() {
	<-x.started
	_ = x.cmd.Process.Kill()
}

// wait reports whether the process ends within a minute.
func (x *process) wait() bool {
	select {
	case <-x.ended:
		return true
	case <-time.After(time.Minute):
		return false
	}
}

// listen passes requests to a broker, but for the one at which it calls die.
func listen(t *testing.T, broker string, k kill, die func()) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var mu sync.Mutex
	requests := 0
	hit := func(frame []byte) bool {
		if key := kmsg.Key(binary.BigEndian.Uint16(frame)); key != kmsg.Produce && key != kmsg.OffsetCommit {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		requests++
		return requests-1 == k.request || k.hangs && requests > k.request
	}
	go func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", broker)
			if err != nil {
				down.Close()
				return
			}
			fatal := make(chan uint32, 1) // the number of the request whose answer is the last
			go func() {
				defer up.Close()
				for {
					frame, err := readFrame(down)
					if err != nil {
						return
					}
					if hit(frame) {
						if k.hangs {
							continue
						}
						if !k.stored {
							die()
							return
						}
						fatal <- binary.BigEndian.Uint32(frame[4:])
					}
					if writeFrame(up, frame) != nil {
						return
					}
				}
			}()
			go func() {
				defer down.Close()
				last, armed := uint32(0), false
				for {
					frame, err := readFrame(up)
					if err != nil {
						return
					}
					select {
					case last = <-fatal:
						armed = true
					default:
					}
					if armed && binary.BigEndian.Uint32(frame) == last {
						die()
						return
					}
					if writeFrame(down, frame) != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func readFrame(r io.Reader) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(n[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func writeFrame(w io.Writer, frame []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}
