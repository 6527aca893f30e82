package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrykafka"
	"github.com/goretry/retry/retryqueue"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// fill writes n records into each partition of topic "in", with values such as "3/17".
func (c *cluster) fill(partitions int32, n int) {
	c.t.Helper()
	cl := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	var rs []*kgo.Record
	for p := range partitions {
		for i := range n {
			rs = append(rs, &kgo.Record{Topic: "in", Partition: p, Value: fmt.Appendf(nil, "%d/%d", p, i)})
		}
	}
	if err := cl.ProduceSync(c.t.Context(), rs...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// In peace there is no commit for each record: one for each partition, and the last.
func TestCommitsInPeace(t *testing.T) {
	bubble(t, 100, plain, func(t *testing.T, c *cluster) {
		c.fill(100, 50)
		commits := c.requests(kmsg.OffsetCommit)
		l := newLog()
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: handler(l)})
		l.wait(t, 5000)
		x.stop()
		if n := commits.Hits(); n > 101 {
			t.Errorf("%d commits, want 101", n)
		}
		for p, at := range c.GroupInfo("g").Commits["in"] {
			if at.Offset != 50 || !strings.HasPrefix(at.Metadata, "retry ended ") {
				t.Errorf("partition %d is at %d %q, want 50 and an orderly end", p, at.Offset, at.Metadata)
			}
		}
	})
}

// A consumer with nothing to do commits what it has done.
func TestAnIdleConsumerCommits(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		c.fill(1, 7)
		l := newLog()
		c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: handler(l)})
		l.wait(t, 7)
		time.Sleep(6 * time.Second)
		if at := c.committed("in"); at.Offset != 7 {
			t.Errorf("after six seconds offset %d is committed, want 7", at.Offset)
		}
		commits := c.requests(kmsg.OffsetCommit)
		time.Sleep(time.Minute)
		if n := commits.Hits(); n > 0 {
			t.Errorf("%d more commits in a minute with nothing to do", n)
		}
	})
}

// So does one whose record waits in its place or before a gate, or whose handlers are slow.
func TestWhatIsDoneIsCommittedWhileAnotherRecordWaits(t *testing.T) {
	closed := &retryqueue.Gate{Failures: 1, Probe: retry.Constant(time.Hour)}
	for name, h := range map[string]*retrykafka.Handler{
		"due":  {Policy: exact(time.Minute, 3), Waits: []retrykafka.Wait{{Topic: "w1", Delay: time.Minute}}},
		"gate": {Policy: exact(time.Minute, 3), Gate: closed},
		"slow": {Policy: exact(time.Minute, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, three, func(t *testing.T, c *cluster) {
				l := newLog()
				topic := "in"
				if name == "due" {
					topic = "w1"
				}
				cl := c.client()
				defer cl.Close()
				for i := range 5 {
					r := &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)}
					if i == 4 {
						r.Headers = []kgo.RecordHeader{{Key: "retry-due", Value: fmt.Append(nil, time.Now().Add(40*time.Second).UnixMilli())}}
					}
					c.produce(cl, r)
				}
				h.Handle = func(ctx context.Context, r *kgo.Record) error {
					l.add("%s", r.Value)
					switch {
					case name == "slow":
						time.Sleep(6 * time.Second)
					case name == "gate" && text(r) == "3":
						for closed.Failures = 1; ; {
							done, err := closed.Wait(ctx)
							if err != nil {
								return err
							}
							done("", errDown)
							time.Sleep(time.Second)
							if since, _, _ := closed.Closed(); !since.IsZero() {
								return nil
							}
						}
					}
					return nil
				}
				x := c.consume(h)
				l.wait(t, 4)
				time.Sleep(11 * time.Second)
				if at := c.committed(topic); at.Offset < 4 {
					t.Errorf("offset %d is committed, want 4", at.Offset)
				}
				x.stop()
			})
		})
	}
}

// After a crash a hundred records of a partition come again at most.
func TestACrashRepeatsAHundredRecords(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		c.fill(1, 1000)
		l := newLog()
		h := &retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: handler(l)}
		var killed atomic.Bool
		h.Handle = func(ctx context.Context, r *kgo.Record) error {
			if r.Offset == 777 && !killed.Swap(true) {
				<-ctx.Done()
				return ctx.Err()
			}
			l.add("%s", text(r))
			return nil
		}
		x := c.consumeUntil(&killed, h)
		l.wait(t, 777)
		x.kill()
		x = c.consume(h)
		time.Sleep(2 * time.Minute) // the dead member's session
		x.stop()
		n := len(l.all())
		if again := n - 1000; again < 1 || again > 100 {
			t.Errorf("%d records came again, want 100 at most", again)
		}
		for i := range 1000 {
			if l.count(fmt.Sprintf("0/%d", i)) == 0 {
				t.Fatalf("record %d is lost", i)
			}
		}
	})
}

// A record that ends its process is dead after MaxAttempts starts, one more at most, also if it does so
// in Context. The next consumer, whose start is careful, does not run it.
func TestARecordThatEndsItsProcess(t *testing.T) {
	for _, where := range []string{"Handle", "Context"} {
		for _, ws := range [][]retrykafka.Wait{nil, waits} {
			t.Run(fmt.Sprintf("in %s with %d waits", where, len(ws)), func(t *testing.T) { endsItsProcess(t, where, ws) })
		}
	}
}

func endsItsProcess(t *testing.T, where string, ws []retrykafka.Wait) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		const attempts = 4
		c.fill(1, 200)
		l := newLog()
		for life := range attempts + 3 {
			var gone atomic.Bool
			in := func(ctx context.Context, place string, r *kgo.Record) error {
				if text(r) == "0/150" && place == where {
					gone.Store(true) // as kill -9 does it
					l.add("killed")
					<-ctx.Done()
				}
				return ctx.Err()
			}
			x := c.consumeUntil(&gone, &retrykafka.Handler{Policy: exact(time.Minute, attempts), Waits: ws, Dead: "dead",
				Context: func(ctx context.Context, r *kgo.Record) context.Context { _ = in(ctx, "Context", r); return ctx },
				Handle:  func(ctx context.Context, r *kgo.Record) error { return in(ctx, "Handle", r) },
			}, kgo.SessionTimeout(6*time.Second))
			time.Sleep(time.Minute)
			if !gone.Load() {
				if life < attempts {
					t.Fatalf("it is dead after %d starts, want %d", life, attempts)
				}
				break
			}
			x.kill()
		}
		if n := len(l.all()); n != attempts && n != attempts+1 {
			t.Errorf("it started %d times, want %d, or one more", n, attempts)
		}
		dead := c.records("dead")
		if len(dead) != 1 || !strings.Contains(header(dead[0], "retry-error"), retryqueue.ErrCrashed.Error()) || text(dead[0]) != "0/150" {
			t.Errorf("the dead letters are %v, want that record, with ErrCrashed", dead)
		}
	})
}

// The first start after an assignment is noted before it, and each of a record that has waited in its
// place. Others are not.
func TestWhichStartsAreNoted(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		c.publish("a", "bad", "b")
		l := newLog()
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: func(_ context.Context, r *kgo.Record) error {
			at := c.committed("in")
			l.add("%s: %d %s", text(r), at.Offset, at.Metadata)
			if text(r) == "bad" {
				return errDown
			}
			return nil
		}})
		l.wait(t, 5)
		x.stop()
		l.want(t, "a: 0 retry running 0 1 0", "bad: 0 retry running 0 1 0", "bad: 1 retry running 1 2 0", "bad: 1 retry running 1 3 0", "b: 2 retry running 2 0 0")
	})
	// One that waits in its place is noted though its start before that does not count.
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		c.publish("a", "later")
		l := newLog()
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: func(_ context.Context, r *kgo.Record) error {
			at := c.committed("in")
			l.add("%s: %d %s", text(r), at.Offset, at.Metadata)
			if text(r) == "later" && l.count("later") == 1 {
				return retry.After(retry.ErrRejected, time.Minute)
			}
			return nil
		}})
		l.wait(t, 3)
		x.stop()
		l.want(t, "a: 0 retry running 0 1 0", "later: 0 retry running 0 1 0", "later: 1 retry running 1 1 0")
	})
}

// unwritten fails all requests that write to a topic, until Remove.
func (c *cluster) unwritten(topic string) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
}

// While a copy cannot be written, its record waits through orderly ends, and blocks no other after them.
func TestOrderlyEndsWhileACopyCannotBeWritten(t *testing.T) {
	for _, ws := range [][]retrykafka.Wait{nil, waits} {
		bubble(t, 1, three, func(t *testing.T, c *cluster) {
			l := newLog()
			c.publish("bad", "a")
			broken := c.unwritten("w2")
			h := &retrykafka.Handler{Policy: exact(10*time.Minute, 2), Waits: ws, Dead: "dead", Handle: handler(l)}
			for range 4 {
				x := c.consume(h)
				time.Sleep(20 * time.Second)
				x.stop()
			}
			l.want(t, "0s bad")
			broken.Remove()
			x := c.consume(h)
			time.Sleep(15 * time.Minute)
			x.stop()
			if ws == nil {
				l.want(t, "0s bad", "10m0s bad", "10m0s a")
			} else {
				l.want(t, "0s bad", "1m20s a", "10m0s bad")
			}
			if dead := c.records("dead"); len(dead) != 1 || header(dead[0], "retry-number") != "2" {
				t.Errorf("the dead letters are %v, want one after two deliveries", dead)
			}
		})
	}
}

// A start that is refused, since the record is dead already, does not count.
func TestOrderlyEndsWhileADeadLetterCannotBeWritten(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		l := newLog()
		c.publish("bad")
		broken := c.unwritten("dead")
		h := &retrykafka.Handler{Policy: exact(time.Minute, 1), Waits: waits, Dead: "dead", Handle: handler(l)}
		for range 5 {
			x := c.consume(h)
			time.Sleep(20 * time.Second)
			x.stop()
		}
		broken.Remove()
		x := c.consume(h)
		time.Sleep(20 * time.Second)
		x.stop()
		l.want(t, "0s bad")
		if dead := c.records("dead"); len(dead) != 1 || header(dead[0], "retry-number") != "1" {
			t.Errorf("the dead letters are %v, want one after one delivery", dead)
		}
	})
}

// A crash in a wait topic counts, also if the record goes on as a copy since the context of its next delivery has ended.
func TestACrashBeforeAContextThatHasEnded(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		l := newLog()
		cl := c.client()
		c.produce(cl, &kgo.Record{Topic: "w1", Value: []byte("bad")})
		cl.Close()
		ws := []retrykafka.Wait{{Topic: "w1", Delay: 2 * time.Second}}
		var gone atomic.Bool
		x := c.consumeUntil(&gone, &retrykafka.Handler{Policy: exact(time.Minute, 2), Waits: ws, Dead: "dead",
			Handle: func(ctx context.Context, r *kgo.Record) error {
				gone.Store(true)
				<-ctx.Done()
				return ctx.Err()
			}}, kgo.SessionTimeout(6*time.Second))
		time.Sleep(time.Minute)
		x.kill()
		n := 0
		x = c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 2), Waits: ws, Dead: "dead", Handle: handler(l),
			Context: func(ctx context.Context, r *kgo.Record) context.Context {
				ctx, cancel := context.WithCancel(ctx)
				if n++; n == 1 {
					cancel()
				}
				context.AfterFunc(ctx, cancel)
				return ctx
			}})
		time.Sleep(10 * time.Minute)
		x.stop()
		if n := l.count("bad"); n != 1 {
			t.Errorf("it ran %d times after the crash, want once: MaxAttempts is 2\n%s", n, strings.Join(l.all(), "\n"))
		}
	})
}

// A gate whose clock cannot sleep is told, and makes no loop.
func TestAGateThatCannotSleep(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		gate := &retryqueue.Gate{Failures: 1, Probe: retry.Constant(time.Hour), Policy: retry.Policy{Clock: sleepless{}}}
		for range 2 {
			done, err := gate.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done("", errDown)
			time.Sleep(time.Second)
		}
		told := newLog()
		c.publish("a")
		x := c.consume(&retrykafka.Handler{Gate: gate, Handle: handler(told), Report: func(err error) { told.add("%v", err) }})
		time.Sleep(2500 * time.Millisecond)
		x.stop()
		told.want(t, "retrykafka: gate: down", "retrykafka: gate: down", "retrykafka: gate: down")
	})
}

type sleepless struct{ clockx.Clock }

func (sleepless) Now() time.Time                             { return time.Now() }
func (sleepless) Sleep(context.Context, time.Duration) error { return errDown }

// An orderly end is no start of a record that it cancels.
func TestAnOrderlyEndDoesNotCount(t *testing.T) {
	for _, ws := range [][]retrykafka.Wait{nil, waits} {
		bubble(t, 1, three, func(t *testing.T, c *cluster) {
			c.publish("bad")
			l := newLog()
			h := &retrykafka.Handler{Policy: exact(time.Minute, 2), Waits: ws, Dead: "dead"}
			h.Handle = func(ctx context.Context, r *kgo.Record) error {
				l.add("%d", retry.AttemptNumber(ctx))
				<-ctx.Done()
				return ctx.Err()
			}
			for range 5 {
				begun := time.Now()
				x := c.consume(h)
				l.wait(t, 1)
				if took := time.Since(begun); took > 250*time.Millisecond { // of a fetch
					t.Errorf("it is delivered %v after its consumer began, want at once", took)
				}
				x.stop()
			}
			if n := c.stored("dead") + c.stored("w1"); n != 0 || c.committed("in").Offset != 0 {
				t.Errorf("%d copies and offset %d after five shutdowns, want none and 0", n, c.committed("in").Offset)
			}
		})
	}
}

// A partition with much to do pauses, keeps its order and holds up no other.
func TestAFullPartitionPauses(t *testing.T) {
	bubble(t, 2, plain, func(t *testing.T, c *cluster) {
		c.fill(2, 3000)
		l := newLog()
		release := make(chan struct{})
		var block atomic.Bool
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: func(ctx context.Context, r *kgo.Record) error {
			if r.Partition == 0 {
				<-release
			}
			if block.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			l.add("%s", text(r))
			return nil
		}})
		l.wait(t, 3000)
		if got := x.client.PauseFetchPartitions(nil)["in"]; !slices.Equal(got, []int32{0}) {
			t.Errorf("the partitions %v are paused, want 0", got)
		}
		time.Sleep(10 * time.Minute)
		for range 100 {
			release <- struct{}{}
		}
		l.wait(t, 100)
		if got := x.client.PauseFetchPartitions(nil)["in"]; !slices.Equal(got, []int32{0}) {
			t.Errorf("after a hundred records the partitions %v are paused, want 0", got)
		}
		epoch := c.GroupInfo("g").Epoch
		close(release)
		begun := time.Now()
		l.wait(t, 2900)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("3000 records took %v after a pause", took)
		}
		if now := c.GroupInfo("g").Epoch; now != epoch || epoch != 1 {
			t.Errorf("there were %d rebalances, want none", now-1)
		}
		block.Store(true)
		c.fill(1, 600)
		time.Sleep(time.Second)
		if got := x.client.PauseFetchPartitions(nil)["in"]; !slices.Equal(got, []int32{0}) {
			t.Errorf("with a full queue again the partitions %v are paused, want 0", got)
		}
		x.stop()
		for p := range 2 {
			last := -1
			for _, s := range l.all() {
				var q, i int
				if _, err := fmt.Sscanf(s, "%d/%d", &q, &i); err == nil && p == q {
					if i != last+1 {
						t.Fatalf("record %d of partition %d came after %d", i, p, last)
					}
					last = i
				}
			}
		}
	})
}

// In an orderly rebalance nothing that has succeeded runs again, and nothing is lost, by whichever
// protocol.
func TestRebalance(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"cooperative": nil, "eager": {kgo.Balancers(kgo.RangeBalancer())}, "by the brokers": {kgo.ServerSideBalancer()},
	} {
		t.Run(name, func(t *testing.T) { rebalance(t, opts...) })
	}
}

func rebalance(t *testing.T, opts ...kgo.Opt) {
	t.Helper()
	bubble(t, 6, three, func(t *testing.T, c *cluster) {
		const each = 300
		c.fill(6, each)
		l := newLog()
		h := &retrykafka.Handler{Policy: exact(time.Minute, 3), Waits: waits, Handle: func(ctx context.Context, r *kgo.Record) error {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			l.add("%s", text(r))
			return nil
		}}
		first := c.consume(h, opts...)
		l.wait(t, 50)
		second := c.consume(h, opts...) // the same Handler, with another client
		l.wait(t, 700)
		first.stop()
		l.wait(t, 6*each-750)
		time.Sleep(time.Minute)
		second.stop()
		all := l.all()
		slices.Sort(all)
		if n, different := len(all), len(slices.Compact(all)); n != 6*each || different != n {
			t.Errorf("%d runs of %d records, want one of each of %d", n, different, 6*each)
		}
	})
}

// When a partition is lost, as after a long outage, its handler is canceled, and its record runs again.
func TestALostPartition(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		c.publish("a")
		l := newLog()
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 9), Handle: func(ctx context.Context, r *kgo.Record) error {
			l.add("begin")
			if l.count("begin") == 1 {
				<-ctx.Done()
				l.add("canceled")
				return ctx.Err()
			}
			return nil
		}})
		l.wait(t, 1)
		c.away.Store(true)
		time.Sleep(2 * time.Minute)
		c.away.Store(false)
		l.wait(t, 2)
		x.stop()
		l.want(t, "begin", "canceled", "begin")
	})
}

// A record whose start must be noted does not start before it is, whatever becomes of the request.
func TestNothingStartsBeforeItsNote(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		c.publish("a")
		var broken atomic.Bool
		broken.Store(true)
		c.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			return nil, errDown, broken.Load() // the connection breaks
		})
		l, told := newLog(), newLog()
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: handler(l), Report: func(err error) { told.add("%v", err) }})
		time.Sleep(5 * time.Minute)
		if n := len(l.all()); n > 0 {
			t.Errorf("%d records have started", n)
		}
		if told.count("commit of in/0") == 0 {
			t.Errorf("Report got %q, want the commit's errors", told.all())
		}
		broken.Store(false)
		l.wait(t, 1)
		x.stop()
	})
}

// A note that could not be written before an orderly end is no start.
func TestANoteThatFailsIsNoStart(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		c.publish("a")
		l := newLog()
		broken := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
		h := &retrykafka.Handler{Policy: exact(time.Minute, 1), Dead: "dead", Handle: handler(l)}
		x := c.consume(h)
		time.Sleep(20 * time.Second)
		x.cancel()
		broken.Remove() // for the last commit
		x.stop()
		if at := c.committed("in"); !strings.HasPrefix(at.Metadata, "retry ended 0 0 ") {
			t.Errorf("%q is committed, want no start", at.Metadata)
		}
		x = c.consume(h)
		l.wait(t, 1)
		x.stop()
		if n := c.stored("dead"); n != 0 || l.count("a") != 1 {
			t.Errorf("it ran %d times, with %d dead letters, want once and none", l.count("a"), n)
		}
	})
}

// A handler that ignores its context delays the rebalance, and its record is done once.
func TestARebalanceWaitsForHandlers(t *testing.T) {
	bubble(t, 2, plain, func(t *testing.T, c *cluster) {
		c.fill(2, 1)
		l := newLog()
		h := &retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: func(ctx context.Context, r *kgo.Record) error {
			l.add("begin %s", text(r))
			time.Sleep(20 * time.Second)
			l.add("end %s", text(r))
			return nil
		}}
		first := c.consume(h)
		l.wait(t, 2)
		second := c.consume(h)
		time.Sleep(2 * time.Minute)
		first.stop()
		second.stop()
		if n := len(l.all()); n != 4 {
			t.Errorf("it happened\n\t%s\nwant each record once", strings.Join(l.all(), "\n\t"))
		}
	})
}

// It does so too while Run ends, also in the pause that Run makes after a poll without records, in which
// it does not hold up rebalances.
func TestARebalanceWaitsForTheEndOfRun(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"cooperative": nil, "eager": {kgo.Balancers(kgo.RangeBalancer())}, "by the brokers": {kgo.ServerSideBalancer()},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 4, plain, func(t *testing.T, c *cluster) {
				c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "in", Partitions: []int32{3}, Err: kerr.TopicAuthorizationFailed, Count: -1})
				c.fill(3, 1)
				l := newLog()
				h := &retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: func(_ context.Context, r *kgo.Record) error {
					l.add("begin %s", text(r))
					time.Sleep(20 * time.Second)
					l.add("end %s", text(r))
					return nil
				}}
				first := c.consume(h, opts...)
				l.wait(t, 3)
				time.Sleep(2 * time.Second)
				first.cancel()
				c.consume(h, opts...)
				time.Sleep(2 * time.Minute)
				if n := len(l.all()); n != 6 {
					t.Errorf("it happened\n\t%s\nwant each record once", strings.Join(l.all(), "\n\t"))
				}
			})
		})
	}
}

// Run may be called again with the same client, and nothing that had arrived is lost.
func TestRunAgain(t *testing.T) {
	for _, ws := range [][]retrykafka.Wait{nil, waits} {
		bubble(t, 2, three, func(t *testing.T, c *cluster) {
			c.fill(2, 700)
			c.publish("bad", "bad")
			l := newLog()
			h := &retrykafka.Handler{Policy: exact(time.Minute, 3), Waits: ws, Dead: "dead", Handle: func(ctx context.Context, r *kgo.Record) error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				l.add("%s", text(r))
				time.Sleep(10 * time.Millisecond)
				if text(r) == "bad" {
					return errDown
				}
				return nil
			}}
			cl := c.client(append(h.Options("in"), kgo.ConsumerGroup("g"))...)
			defer cl.CloseAllowingRebalance()
			for i := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i/4)*time.Second) // at first with full queues
				if err := h.Run(ctx, cl); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Run() = %v", err)
				}
				cancel()
			}
			if n := l.count("/"); n != 1400 {
				t.Errorf("%d runs of 1400 records, want one each", n)
			}
			if n := l.count("bad"); n != 6 {
				t.Errorf("%d runs of two bad records, want 3 each", n)
			}
			if n := c.stored("dead"); n != 2 {
				t.Errorf("%d dead letters, want 2", n)
			}
		})
	}
}

// A Run that ends as its poll returns the first records of a partition leaves them to the next one.
func TestRunEndsWhileItPolls(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		c.publish("a")
		l := newLog()
		h := &retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: handler(l)}
		ctx, cancel := context.WithCancel(t.Context())
		cl := c.client(append(h.Options("in"), kgo.ConsumerGroup("g"), kgo.WithHooks(atPoll(cancel)))...)
		defer cl.CloseAllowingRebalance()
		if err := h.Run(ctx, cl); !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v, want the context's cause", err)
		}
		c.publish("b")
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_ = h.Run(ctx, cl)
		l.want(t, "0s a", "0s b")
	})
}

// atPoll is called when a poll returns a record.
type atPoll func()

func (f atPoll) OnFetchRecordUnbuffered(_ *kgo.Record, polled bool) {
	if polled {
		f()
	}
}

// A shutdown cancels handlers and commits, within a second with a broker and five without.
func TestShutdown(t *testing.T) {
	for name, tt := range map[string]struct {
		away, hangs bool
		most        time.Duration
	}{"with a broker": {false, false, time.Second}, "without": {true, false, 5 * time.Second}, "with one that hangs": {false, true, 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 4, three, func(t *testing.T, c *cluster) {
				c.fill(4, 20)
				l, told := newLog(), newLog()
				report := func(err error) { told.add("%v", err) }
				x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Waits: waits, Report: report, Handle: func(ctx context.Context, r *kgo.Record) error {
					l.add("%s", text(r))
					if l.count("") > 40 {
						<-ctx.Done()
					}
					if tt.hangs && l.count("") > 30 {
						return errDown // and its copy gets no answer
					}
					return ctx.Err()
				}})
				if tt.hangs {
					c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
						c.KeepControl()
						return nil, nil, l.count("") > 30
					})
					time.Sleep(time.Minute)
					if n := told.count("no answer yet"); n < 11 || n > 48 {
						t.Errorf("Report got %d times that a copy has no answer, want each five seconds", n)
					}
				} else {
					l.wait(t, 42)
				}
				c.away.Store(tt.away)
				begun := time.Now()
				x.cancel()
				if err := <-x.done; !errors.Is(err, context.Canceled) {
					t.Errorf("Run() = %v, want the context's cause", err)
				}
				if took := time.Since(begun); took > tt.most {
					t.Errorf("it took %v, want %v at most", took, tt.most)
				}
				x.done <- nil
				var n int64
				for _, at := range c.GroupInfo("g").Commits["in"] {
					n += at.Offset
				}
				if tt.hangs && n > 30 {
					t.Errorf("%d records are committed, want 30 at most: others have copies that nobody has", n)
				}
				if !tt.away && !tt.hangs && n != 40 {
					t.Errorf("%d records are committed, want 40", n)
				}
			})
		})
	}
}

// A client whose Run has ended and which is not closed yet holds up no rebalance.
func TestARebalanceAfterRun(t *testing.T) {
	bubble(t, 2, plain, func(t *testing.T, c *cluster) {
		c.fill(2, 1)
		l := newLog()
		h := &retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: handler(l)}
		first := c.consume(h)
		l.wait(t, 2)
		first.cancel()
		first.done <- <-first.done
		c.consume(h)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := c.WaitGroupStable(ctx, "g", 2); err != nil {
			t.Error(err)
		}
	})
}

// So does one while a copy cannot be written.
func TestShutdownWhileACopyFails(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "dead", Err: kerr.TopicAuthorizationFailed, Count: -1})
		c.publish("good", "bad")
		l := newLog()
		p := exact(time.Minute, 1)
		p.Hooks.Done = func(_ context.Context, s retry.Summary) {
			if s.Err != nil {
				t.Errorf("Done gets %v, though no dead letter is stored", s.Err)
			}
		}
		x := c.consume(&retrykafka.Handler{Policy: p, Dead: "dead", Handle: handler(l)})
		l.wait(t, 2)
		time.Sleep(time.Minute)
		begun := time.Now()
		x.cancel()
		<-x.done
		x.done <- nil
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v, want a second at most", took)
		}
		if at := c.committed("in"); at.Offset != 1 || !strings.HasPrefix(at.Metadata, "retry ended 1 1 ") {
			t.Errorf("offset %d is committed with %q, want 1 and one start", at.Offset, at.Metadata)
		}
	})
}

// Run ends when its client is closed.
func TestAClosedClientEndsRun(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		c.fill(1, 3)
		l := newLog()
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Handle: handler(l)})
		l.wait(t, 3)
		x.client.CloseAllowingRebalance()
		if err := <-x.done; !errors.Is(err, kgo.ErrClientClosed) {
			t.Errorf("Run() = %v, want ErrClientClosed", err)
		}
		x.done <- nil
		if at := c.committed("in"); at.Offset != 3 {
			t.Errorf("offset %d is committed, want 3", at.Offset)
		}
	})
}

// While a gate is closed partitions wait, for however long: the member keeps its heartbeats, there is
// no rebalance, and few records are tried.
func TestGate(t *testing.T) {
	for _, ws := range [][]retrykafka.Wait{nil, waits} {
		bubble(t, 4, three, func(t *testing.T, c *cluster) {
			c.fill(4, 100)
			l := newLog()
			var down atomic.Bool
			down.Store(true)
			p := exact(time.Second, retry.Unlimited)
			x := c.consume(&retrykafka.Handler{Policy: p, Waits: ws, Gate: new(retryqueue.Gate), Handle: func(_ context.Context, r *kgo.Record) error {
				if down.Load() {
					time.Sleep(100 * time.Millisecond)
					l.add("down")
					return errDown
				}
				l.add("%s", text(r))
				return nil
			}})
			time.Sleep(30 * time.Minute)
			if n := l.count("down"); n < 30 || n > 120 {
				t.Errorf("%d calls failed in half an hour, want one in a minute", n)
			}
			if g := c.GroupInfo("g"); g.Epoch != 1 || len(g.Members) != 1 {
				t.Errorf("the group has epoch %d and %d members, want no rebalance", g.Epoch, len(g.Members))
			}
			down.Store(false)
			time.Sleep(3 * time.Minute)
			x.stop()
			if n := l.count("/"); n != 400 {
				t.Errorf("%d records were done, want 400", n)
			}
		})
	}
}

// What was done is committed while the next record waits for an open gate, which lets few messages start
// after an outage.
func TestWhatIsDoneIsCommittedWhileAnOpenGateWaits(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		gate := &retryqueue.Gate{Failures: 1, Probe: retry.Constant(time.Hour)}
		start := func() func(string, error) {
			done, err := gate.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return done
		}
		start()("a", errDown)
		time.Sleep(time.Second)
		start()("b", errDown) // it closes
		start()("c", nil)     // an hour later it opens
		l := newLog()
		c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Gate: gate, Handle: handler(l)})
		c.publish("first")
		l.wait(t, 1)
		for range 3 {
			start() // more do not start until these are done
		}
		c.publish("second")
		time.Sleep(10 * time.Second)
		if since, _, _ := gate.Closed(); !since.IsZero() || l.count("second") > 0 {
			t.Fatalf("the gate is closed, or the second record has started: %v", l.all())
		}
		if at := c.committed("in"); at.Offset != 1 {
			t.Errorf("offset %d is committed, want 1", at.Offset)
		}
	})
}

// A record whose note cannot be stored gives its turn back at the end.
func TestATurnThatIsNotUsed(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		gate := &retryqueue.Gate{Failures: 1, Probe: retry.Constant(time.Hour)}
		for _, id := range []string{"a", "b"} {
			done, err := gate.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done(id, errDown)
			time.Sleep(time.Second)
		}
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.InvalidCommitOffsetSize, Count: -1})
		c.publish("a")
		l := newLog()
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Gate: gate, Handle: handler(l)})
		time.Sleep(time.Hour) // it has the probe
		x.stop()
		begun := time.Now()
		if _, err := gate.Wait(t.Context()); err != nil || time.Since(begun) > time.Second || len(l.all()) > 0 {
			t.Errorf("the next turn comes after %v, %v; %v", time.Since(begun), err, l.all())
		}
	})
}

// A handler that a rebalance cancels says nothing to the gate, nor does a bad record.
func TestWhatSaysNothingToAGate(t *testing.T) {
	bubble(t, 20, plain, func(t *testing.T, c *cluster) {
		c.fill(20, 1)
		gate := new(retryqueue.Gate)
		l := newLog()
		h := &retrykafka.Handler{Policy: exact(time.Second, 100), Gate: gate, Handle: func(ctx context.Context, r *kgo.Record) error {
			l.add("")
			<-ctx.Done()
			return ctx.Err()
		}}
		for range 5 {
			x := c.consume(h)
			l.wait(t, 20)
			time.Sleep(time.Second)
			x.stop()
		}
		if since, _, err := gate.Closed(); !since.IsZero() {
			t.Errorf("shutdowns have closed the gate: %v", err)
		}
	})
}

func TestCheck(t *testing.T) {
	handle := func(context.Context, *kgo.Record) error { return nil }
	for name, tt := range map[string]struct {
		h       *retrykafka.Handler
		opts    []kgo.Opt
		without bool // Options
		want    string
	}{
		"fine":              {h: &retrykafka.Handler{Handle: handle, Waits: waits, Dead: "dead"}},
		"in its place":      {h: &retrykafka.Handler{Handle: handle}},
		"starts at the end": {h: &retrykafka.Handler{Handle: handle}, opts: []kgo.Opt{kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd())}},
		"no Handle":         {h: &retrykafka.Handler{}, want: "Handle is nil"},
		"no Options":        {h: &retrykafka.Handler{Handle: handle}, without: true, want: "without Handler.Options"},
		"no group":          {h: &retrykafka.Handler{Handle: handle}, without: true, opts: []kgo.Opt{kgo.ConsumeTopics("in")}, want: "set kgo.ConsumerGroup"},
		"another topic":     {h: &retrykafka.Handler{Handle: handle, Waits: waits}, opts: []kgo.Opt{kgo.ConsumeTopics("in")}, want: "an option after these has replaced one"},
		"few acks": {h: &retrykafka.Handler{Handle: handle}, opts: []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()},
			want: "set kgo.RequiredAcks"},
		"passes over": {h: &retrykafka.Handler{Handle: handle, Waits: waits[:1]}, opts: []kgo.Opt{kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd())},
			want: "passes over records that wait"},
		"missing wait topic":   {h: &retrykafka.Handler{Handle: handle, Waits: []retrykafka.Wait{{Topic: "none", Delay: time.Second}}}, want: "topic none: UNKNOWN_TOPIC"},
		"missing dead letters": {h: &retrykafka.Handler{Handle: handle, Dead: "none"}, want: "topic none: UNKNOWN_TOPIC"},
		"missing topic":        {h: &retrykafka.Handler{Handle: handle}, opts: []kgo.Opt{kgo.ConsumeTopics("none")}, want: "topic none: UNKNOWN_TOPIC"},
		"not ascending": {h: &retrykafka.Handler{Handle: handle, Waits: []retrykafka.Wait{{Topic: "w1", Delay: time.Minute}, {Topic: "w2", Delay: time.Second}}},
			want: "wait topic w2 has the delay 1s: let delays"},
		"equal delays": {h: &retrykafka.Handler{Handle: handle, Waits: []retrykafka.Wait{{Topic: "w1", Delay: time.Minute}, {Topic: "w2", Delay: time.Minute}}},
			want: "wait topic w2 has the delay 1m0s: let delays"},
		"missing wait topic, by expression": {h: &retrykafka.Handler{Handle: handle, Waits: []retrykafka.Wait{{Topic: "none", Delay: time.Second}}},
			opts: []kgo.Opt{kgo.ConsumeRegex()}, want: "topic none: UNKNOWN_TOPIC"},
		"another func": {h: &retrykafka.Handler{Handle: handle}, want: "an option after these has replaced one",
			opts: []kgo.Opt{kgo.OnOffsetsFetched(func(context.Context, *kgo.Client, *kmsg.OffsetFetchResponse) error { return nil })}},
		"no delay":         {h: &retrykafka.Handler{Handle: handle, Waits: []retrykafka.Wait{{Topic: "w1"}}}, want: "has the delay 0s"},
		"compacted":        {h: &retrykafka.Handler{Handle: handle, Waits: []retrykafka.Wait{{Topic: "compacted", Delay: time.Second}}}, want: "topic compacted is compacted"},
		"compacted dead":   {h: &retrykafka.Handler{Handle: handle, Dead: "compacted"}, want: "topic compacted is compacted"},
		"deletes too soon": {h: &retrykafka.Handler{Handle: handle, Waits: []retrykafka.Wait{{Topic: "short", Delay: time.Minute}}}, want: "topic short deletes records after 1m0s, before its delay of 1m0s is over"},
		"brokers' times":   {h: &retrykafka.Handler{Handle: handle, Waits: []retrykafka.Wait{{Topic: "theirs", Delay: time.Second}}}, want: "topic theirs has the times of brokers"},
		"dead have those":  {h: &retrykafka.Handler{Handle: handle, Dead: "theirs"}},
		"by hand":          {h: &retrykafka.Handler{Handle: handle}, opts: []kgo.Opt{kgo.ManualFlushing()}, want: "leave it out"},
		"transactions":     {h: &retrykafka.Handler{Handle: handle}, opts: []kgo.Opt{kgo.TransactionalID("t")}, want: "leave out kgo.TransactionalID"},
		"kept for ever":    {h: &retrykafka.Handler{Handle: handle, Waits: []retrykafka.Wait{{Topic: "kept", Delay: time.Minute}}}},
		"dead is consumed": {h: &retrykafka.Handler{Handle: handle, Dead: "in"}, want: "consumes the dead-letter topic in"},
		"by expression": {h: &retrykafka.Handler{Handle: handle, Dead: "dead"}, opts: []kgo.Opt{kgo.ConsumeTopics("d.*"), kgo.ConsumeRegex()},
			want: "consumes the dead-letter topic dead"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, three, func(t *testing.T, c *cluster) {
				for topic, config := range map[string][2]string{
					"compacted": {"cleanup.policy", "compact"}, "short": {"retention.ms", "60000"}, "kept": {"retention.ms", "-1"}, "theirs": {"message.timestamp.type", "LogAppendTime"},
				} {
					if err := c.CreateTopic(topic, 1, map[string]string{config[0]: config[1]}); err != nil {
						t.Fatal(err)
					}
				}
				var opts []kgo.Opt
				if !tt.without {
					opts = append(tt.h.Options("in"), kgo.ConsumerGroup("g"))
				}
				cl := c.client(append(opts, tt.opts...)...)
				defer cl.CloseAllowingRebalance()
				err := tt.h.Check(t.Context(), cl)
				switch {
				case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("Check() = %v, want %s", err, tt.want)
				}
				if tt.want != "" {
					if run := tt.h.Run(t.Context(), cl); run == nil || run.Error() != err.Error() {
						t.Errorf("Run() = %v, want Check's error", run)
					}
				}
			})
		})
	}
}

// Without an answer there is no telling.
func TestCheckWithoutABroker(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		h := &retrykafka.Handler{Handle: func(context.Context, *kgo.Record) error { return nil }, Waits: waits}
		cl := c.client(append(h.Options("in"), kgo.ConsumerGroup("g"))...)
		defer cl.CloseAllowingRebalance()
		c.away.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := h.Check(ctx, cl); err == nil || !strings.HasPrefix(err.Error(), "retrykafka: topics: ") {
			t.Errorf("Check() = %v, want an error of the request", err)
		}
	})
}

// What Check may not see it does not refuse, nor a broker that is about to elect a leader.
func TestCheckWithoutRights(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		h := &retrykafka.Handler{Handle: func(context.Context, *kgo.Record) error { return nil }, Waits: waits, Dead: "dead"}
		cl := c.client(append(h.Options("in"), kgo.ConsumerGroup("g"))...)
		defer cl.CloseAllowingRebalance()
		time.Sleep(time.Second)
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1},
			kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "w1", Err: kerr.LeaderNotAvailable, Count: 1})
		if err := h.Check(t.Context(), cl); err != nil {
			t.Error(err)
		}
	})
}

// Metadata of another program, and none, do no harm.
func TestForeignMetadata(t *testing.T) {
	for _, metadata := range []string{"", "member-1", "retry", "retry running x", "retry running 0 -7 -9", "retry ended 99999999999999999999 1 1"} {
		bubble(t, 1, plain, func(t *testing.T, c *cluster) {
			c.publish("a", "bad", "b")
			cl := c.client(kgo.MaxVersions(kversion.V3_0_0())) // later ones commit for a topic's id
			defer cl.Close()
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Group, req.Generation = "g", -1
			req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "in", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1, LeaderEpoch: -1, Metadata: &metadata}}}}
			if resp, err := req.RequestWith(t.Context(), cl); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Fatal(resp, err)
			}
			l := newLog()
			x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 2), Handle: handler(l)})
			l.wait(t, 3)
			x.stop()
			l.want(t, "0s bad", "1m0s bad", "1m0s b")
		})
	}
}
