package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrykafka"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	plain = []string{"in", "dead"}
	three = []string{"in", "w1", "w2", "dead"}
	waits = []retrykafka.Wait{{Topic: "w1", Delay: 10 * time.Second}, {Topic: "w2", Delay: time.Minute}}
)

// handler logs what it gets, and fails for values that begin with "bad".
func handler(l *log) func(context.Context, *kgo.Record) error {
	return func(_ context.Context, r *kgo.Record) error {
		l.add("%v %s", time.Since(l.begun).Round(time.Second), text(r))
		if strings.HasPrefix(text(r), "bad") {
			return errDown
		}
		return nil
	}
}

func TestARecordThatWaitsBlocksNoOther(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		l := newLog()
		c.publish("a", "bad", "b")
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Waits: waits, Dead: "dead", Handle: handler(l)})
		l.wait(t, 5)
		time.Sleep(time.Second) // for its dead letter
		x.stop()
		l.want(t, "0s a", "0s bad", "0s b", "1m0s bad", "2m0s bad")
		if n := c.stored("dead"); n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	})
}

func TestWithoutWaitsTheOrderIsKept(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		l := newLog()
		c.publish("a", "bad", "b")
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Dead: "dead", Handle: handler(l)})
		l.wait(t, 5)
		x.stop()
		l.want(t, "0s a", "0s bad", "1m0s bad", "2m0s bad", "2m0s b")
		if n := c.stored("dead"); n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	})
}

// Neither an orderly end nor a crash loses how often a record that waits in its place was delivered,
// or when it is due.
func TestAWaitInPlaceOutlivesItsConsumer(t *testing.T) {
	for name, end := range map[string]func(*consumer){"stopped": func(x *consumer) { x.stop() }, "killed": (*consumer).kill} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, plain, func(t *testing.T, c *cluster) {
				l := newLog()
				c.publish("bad", "b")
				h := &retrykafka.Handler{Policy: exact(5*time.Minute, 3), Dead: "dead", Handle: handler(l)}
				x := c.consume(h)
				l.wait(t, 2)
				time.Sleep(time.Minute)
				end(x)
				x = c.consume(h)
				l.wait(t, 2)
				x.stop()
				l.want(t, "0s bad", "5m0s bad", "10m0s bad", "10m0s b")
			})
		})
	}
}

// Handle gets a record as it was published at every delivery: what a user would make a key of
// idempotence from.
func TestHandleGetsTheRecordAsItWasPublished(t *testing.T) {
	for _, ws := range [][]retrykafka.Wait{nil, waits} {
		bubble(t, 2, three, func(t *testing.T, c *cluster) {
			l := newLog()
			cl := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
			defer cl.Close()
			c.produce(cl, &kgo.Record{Topic: "in", Partition: 1, Value: []byte("bad")})
			c.produce(cl, &kgo.Record{Topic: "in", Partition: 1, Key: []byte("k"), Timestamp: time.UnixMilli(1e12 + 7),
				Headers: []kgo.RecordHeader{{Key: "b", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: []byte("2")}, {Key: "retry-count", Value: []byte("9")}}})
			x := c.consume(&retrykafka.Handler{Policy: exact(30*time.Second, 3), Waits: ws, Dead: "dead", Handle: func(_ context.Context, r *kgo.Record) error {
				if r.Value == nil {
					l.add("%s/%d/%d at %d: key %q, headers %q", r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Headers)
				}
				return errDown
			}})
			l.wait(t, 3)
			time.Sleep(time.Second) // for its dead letter
			x.stop()
			const want = `in/1/1 at 1000000000007: key "k", headers [{"b" "1"} {"a" ""} {"b" "2"} {"retry-count" "9"}]`
			l.want(t, want, want, want)
			dead := c.records("dead")[1]
			if dead.Value != nil || string(dead.Key) != "k" || !bytes.Equal(dead.Headers[3].Value, []byte("9")) {
				t.Errorf("the dead letter is %v", dead)
			}
		})
	}
}

// Handle may change its record and produce it elsewhere.
func TestAHandlerThatForwardsItsRecord(t *testing.T) {
	for _, ws := range [][]retrykafka.Wait{nil, waits} {
		bubble(t, 1, append([]string{"out"}, three...), func(t *testing.T, c *cluster) {
			out := c.client()
			defer out.Close()
			for range 50 {
				c.produce(out, &kgo.Record{Topic: "out"})
			}
			c.produce(out, &kgo.Record{Topic: "in", Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}})
			c.produce(out, &kgo.Record{Topic: "in", Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}})
			l := newLog()
			x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Waits: ws, Dead: "dead", Handle: func(ctx context.Context, r *kgo.Record) error {
				l.add("%v %s/%d %s", time.Since(l.begun).Round(time.Second), r.Topic, r.Offset, r.Headers)
				first := r.Offset == 0
				r.Headers[0].Value = []byte("2")
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: "b"})
				r.Topic, r.Key = "out", []byte("key")
				if err := out.ProduceSync(ctx, r).FirstErr(); err != nil || !first {
					return err
				}
				return errDown
			}})
			l.wait(t, 4)
			time.Sleep(time.Second)
			x.stop()
			want := []string{"0s in/0 [{a 1}]", "1m0s in/0 [{a 1}]", "2m0s in/0 [{a 1}]", "2m0s in/1 [{a 1}]"}
			if ws != nil {
				want = []string{"0s in/0 [{a 1}]", "0s in/1 [{a 1}]", "1m0s in/0 [{a 1}]", "2m0s in/0 [{a 1}]"}
			}
			l.want(t, want...)
			if at := c.committed("in"); at.Offset != 2 {
				t.Errorf("offset %d is committed, want 2", at.Offset)
			}
			dead := c.records("dead")
			if len(dead) != 1 || header(dead[0], "retry-origin") != "in/0/0" || header(dead[0], "a") != "1" || dead[0].Key != nil {
				t.Errorf("the dead letters are %v, want one as it was published", dead)
			}
		})
	}
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// A dead letter that somebody publishes once more starts anew.
func TestARedrivenDeadLetterStartsAnew(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		l := newLog()
		c.publish("bad")
		h := &retrykafka.Handler{Policy: exact(time.Minute, 2), Waits: waits, Dead: "dead"}
		h.Handle = func(ctx context.Context, r *kgo.Record) error {
			l.add("%d headers", len(r.Headers))
			return errDown
		}
		x := c.consume(h)
		l.wait(t, 2)
		time.Sleep(time.Second)
		dead := c.records("dead")[0]
		for key, want := range map[string]string{"retry-number": "2", "retry-origin": "in/0/0", "retry-reason": "max_attempts", "retry-due": ""} {
			if got := header(dead, key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		if got := header(dead, "retry-error"); !strings.HasSuffix(got, ": down") {
			t.Errorf("retry-error is %q, want one that ends with the handler's", got)
		}
		cl := c.client()
		defer cl.Close()
		c.produce(cl, &kgo.Record{Topic: "in", Value: dead.Value, Headers: dead.Headers})
		l.wait(t, 2)
		time.Sleep(time.Second)
		x.stop()
		l.want(t, "0 headers", "0 headers", "0 headers", "0 headers")
		if again := c.records("dead")[1]; header(again, "retry-number") != "2" || header(again, "retry-origin") != "in/0/1" || len(again.Headers) != 5 {
			t.Errorf("the headers are %q, want those of a new record", again.Headers)
		}
	})
}

// A dead letter's error is short, and left out if the letter is too large with it.
func TestDeadLettersFit(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		const most = 4 << 10
		cl := c.client()
		defer cl.Close()
		c.produce(cl, &kgo.Record{Topic: "in", Value: []byte("short")})
		c.produce(cl, &kgo.Record{Topic: "in", Value: make([]byte, most-350)})
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 1), Dead: "dead",
			Handle: func(context.Context, *kgo.Record) error { return errors.New(strings.Repeat("é", 5000)) }}, kgo.ProducerBatchMaxBytes(most), kgo.ProducerBatchCompression(kgo.NoCompression()))
		time.Sleep(time.Minute)
		x.stop()
		dead := c.records("dead")
		if len(dead) != 2 {
			t.Fatalf("%d dead letters, want 2", len(dead))
		}
		if n := len(header(dead[0], "retry-error")); n > 1024 || n < 1000 {
			t.Errorf("the error has %d bytes, want 1 KiB at most", n)
		}
		if header(dead[1], "retry-error") != "" || header(dead[1], "retry-reason") != "max_attempts" {
			t.Errorf("the headers are %q, want them without the error", dead[1].Headers)
		}
	})
}

// A wait that is longer than all topics is kept, by several copies. None is early.
func TestWaitsOfAnyLength(t *testing.T) {
	for wait, most := range map[time.Duration]int64{
		9 * time.Second: 5, 5 * time.Second: 3, time.Second: 1, 100 * time.Millisecond: 1, 0: 1, 4400 * time.Millisecond: 1, time.Minute: 17,
	} {
		bubble(t, 1, three, func(t *testing.T, c *cluster) {
			l := newLog()
			c.publish("bad")
			var ran []time.Time
			x := c.consume(&retrykafka.Handler{Policy: exact(wait, 2), Dead: "dead",
				Waits: []retrykafka.Wait{{Topic: "w1", Delay: time.Second}, {Topic: "w2", Delay: 4 * time.Second}},
				Handle: func(context.Context, *kgo.Record) error {
					ran = append(ran, time.Now())
					l.add("")
					return errDown
				}})
			l.wait(t, 2)
			x.stop()
			if took := ran[1].Sub(ran[0]); took < wait || took > wait+600*time.Millisecond {
				t.Errorf("a wait of %v took %v", wait, took)
			}
			if n := c.stored("w1") + c.stored("w2"); n > most || n < 1 {
				t.Errorf("a wait of %v made %d copies, want %d at most", wait, n, most)
			}
		})
	}
}

// In a wait topic no record waits for the long wait of another one.
func TestALongWaitBlocksNoOther(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		l := newLog()
		cl := c.client()
		defer cl.Close()
		for i, due := range []time.Duration{time.Hour, 5 * time.Minute, 10 * time.Second, 2 * time.Minute, 61 * time.Second} {
			topic := "w1"
			if i > 2 {
				topic = "w2"
			}
			c.produce(cl, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i), Headers: []kgo.RecordHeader{{Key: "retry-due", Value: fmt.Append(nil, time.Now().Add(due).UnixMilli())}}})
		}
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Waits: waits, Handle: handler(l)})
		l.wait(t, 2)
		time.Sleep(time.Hour)
		x.stop()
		if got := l.all(); len(got) != 5 || got[0] != "10s 2" || got[1] != "1m1s 4" || !strings.HasPrefix(got[2], "2m") ||
			!strings.HasPrefix(got[3], "5m") || !strings.HasPrefix(got[4], "1h0m") {
			t.Errorf("it happened %q, want each when it is due", got)
		}
	})
}

// What does not come from this package does no harm in a wait topic.
func TestStrangersInAWaitTopic(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		l := newLog()
		cl := c.client()
		defer cl.Close()
		for _, kv := range [][2]string{{"retry-number", "-5"}, {"retry-number", "x"}, {"retry-first", "x"}, {"retry-due", ""}, {"retry-due", "-9223372036854775808"},
			{"retry-due", "9223372036854775807"}, {"retry-origin", "a/b"}, {"retry-origin", "a/99999999999/1"}, {"retry-origin", "a/1/x"}} {
			c.produce(cl, &kgo.Record{Topic: "w1", Value: []byte(kv[0] + kv[1]), Headers: []kgo.RecordHeader{{Key: kv[0], Value: []byte(kv[1])}}})
		}
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 1), Waits: waits, Handle: func(_ context.Context, r *kgo.Record) error {
			l.add("%s of %s/%d", r.Value, r.Topic, r.Partition)
			return nil
		}})
		l.wait(t, 8)
		x.stop()
		if got := l.all(); slices.ContainsFunc(got, func(s string) bool { return !strings.HasSuffix(s, " of w1/0") }) {
			t.Errorf("Handle got %q, want records of w1", got)
		}
		if n := c.stored("w1") + c.stored("w2"); n != 10 { // one is due in the year 292278994
			t.Errorf("%d records in wait topics, want 10", n)
		}
	})
}

// "Not yet" counts for no limit but MaxElapsed, wherever the record waits.
func TestNotYetIsNotCounted(t *testing.T) {
	for _, ws := range [][]retrykafka.Wait{nil, waits} {
		bubble(t, 1, three, func(t *testing.T, c *cluster) {
			l := newLog()
			c.publish("a")
			n := 0
			x := c.consume(&retrykafka.Handler{Policy: exact(20*time.Second, 2), Waits: ws, Dead: "dead", Handle: func(_ context.Context, r *kgo.Record) error {
				if n++; n <= 5 {
					l.add("not yet")
					return retry.After(retry.ErrRejected, 20*time.Second)
				}
				l.add("down")
				return errDown
			}})
			l.wait(t, 7)
			time.Sleep(time.Minute)
			x.stop()
			l.want(t, "not yet", "not yet", "not yet", "not yet", "not yet", "down", "down")
			if dead := c.records("dead"); len(dead) != 1 || header(dead[0], "retry-number") != "2" {
				t.Errorf("the dead letters are %v, want one after two deliveries", dead)
			}
		})
	}
}

// MaxElapsed counts from the record's timestamp.
func TestMaxElapsedCountsFromTheTimestamp(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		l := newLog()
		cl := c.client()
		defer cl.Close()
		c.produce(cl, &kgo.Record{Topic: "in", Value: []byte("bad"), Timestamp: time.Now().Add(-2*time.Minute - 30*time.Second)})
		p := exact(time.Minute, retry.Unlimited)
		p.MaxElapsed = 5 * time.Minute
		x := c.consume(&retrykafka.Handler{Policy: p, Waits: waits, Dead: "dead", Handle: handler(l)})
		l.wait(t, 3)
		time.Sleep(2 * time.Minute)
		x.stop()
		l.want(t, "0s bad", "1m0s bad", "2m0s bad")
		if dead := c.records("dead"); len(dead) != 1 || header(dead[0], "retry-reason") != "max_elapsed" {
			t.Errorf("the dead letters are %v, want one that is too old", dead)
		}
	})
}

// A record that goes on to another round is there once: its offset is committed at once.
func TestARoundIsCommittedAtOnce(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		cl := c.client()
		defer cl.Close()
		due := time.Now().Add(time.Hour)
		c.produce(cl, &kgo.Record{Topic: "w1", Headers: []kgo.RecordHeader{{Key: "retry-due", Value: fmt.Append(nil, due.UnixMilli())}}})
		c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Waits: waits, Handle: handler(newLog())})
		time.Sleep(waits[0].Delay + time.Second)
		if n, at := c.stored("w1")+c.stored("w2"), c.committed("w1"); n != 2 || at.Offset != 1 {
			t.Errorf("%d records wait, and offset %d is committed, want a copy and 1", n, at.Offset)
		}
	})
}

// A wait that a server asks for is kept over all topics.
func TestAHintIsKept(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		l := newLog()
		c.publish("a")
		n := 0
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Second, 3), Waits: waits, Handle: func(context.Context, *kgo.Record) error {
			l.add("%v", time.Since(l.begun).Round(2*time.Second))
			if n++; n == 1 {
				return retry.After(errDown, 5*time.Minute)
			}
			return nil
		}})
		l.wait(t, 2)
		x.stop()
		l.want(t, "0s", "5m2s")
	})
}

// Hooks get each delivery as a run of one attempt, in the context that Handler.Context gives.
func TestHooksAndContext(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		l := newLog()
		c.publish("bad")
		type key struct{}
		p := exact(time.Minute, 2)
		p.Hooks = retry.Hooks{
			Start: func(ctx context.Context, _ retry.Policy) context.Context {
				l.add("start %v", ctx.Value(key{}))
				return ctx
			},
			Attempt: func(ctx context.Context, a retry.Attempt) context.Context { l.add("attempt %d", a.Number); return ctx },
			Wait:    func(_ context.Context, a retry.Attempt) { l.add("wait %v", a.Delay) },
			Done: func(_ context.Context, s retry.Summary) {
				l.add("done %v, %d dead letters", s.Reason, c.stored("dead"))
			},
		}
		x := c.consume(&retrykafka.Handler{Policy: p, Waits: waits, Dead: "dead",
			Context: func(ctx context.Context, r *kgo.Record) context.Context {
				return context.WithValue(ctx, key{}, r.Topic)
			},
			Handle: func(ctx context.Context, _ *kgo.Record) error { l.add("handle %v", ctx.Value(key{})); return errDown }})
		l.wait(t, 9)
		x.stop()
		l.want(t, "start in", "attempt 1", "handle in", "wait 1m0s", "done none, 0 dead letters",
			"start in", "attempt 2", "handle in", "done max_attempts, 1 dead letters")
	})
}

// If the context that Handler.Context returns has ended, the record stays, and is not tried in a hot
// loop.
func TestAContextThatHasEnded(t *testing.T) {
	bubble(t, 1, three, func(t *testing.T, c *cluster) {
		l := newLog()
		c.publish("a")
		n := 0
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 2), Waits: waits, Handle: handler(l),
			Context: func(ctx context.Context, _ *kgo.Record) context.Context {
				ctx, cancel := context.WithCancel(ctx)
				if n++; n <= 10 {
					cancel()
				}
				context.AfterFunc(ctx, cancel)
				return ctx
			}})
		l.wait(t, 1)
		x.stop()
		l.want(t, "10s a")
	})
}

// runtime.Goexit in a handler is a panic that ends no process.
func TestGoexit(t *testing.T) {
	for _, ws := range [][]retrykafka.Wait{nil, waits} {
		bubble(t, 1, three, func(t *testing.T, c *cluster) {
			l := newLog()
			c.publish("exits", "a")
			x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 3), Waits: ws, Dead: "dead", Handle: func(_ context.Context, r *kgo.Record) error {
				l.add("%s", text(r))
				if text(r) == "exits" {
					runtime.Goexit()
				}
				return nil
			}})
			l.wait(t, 4)
			time.Sleep(time.Second)
			x.stop()
			if n := l.count("exits"); n != 3 {
				t.Errorf("it ran %d times, want 3", n)
			}
			if dead := c.records("dead"); len(dead) != 1 || !strings.Contains(header(dead[0], "retry-error"), "panicked") {
				t.Errorf("the dead letters are %v, want one of a panic", dead)
			}
		})
	}
}

// Without Dead a dead record is dropped.
func TestWithoutDeadRecordsAreDropped(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		l := newLog()
		c.publish("bad", "a")
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 1), Handle: handler(l)})
		l.wait(t, 2)
		x.stop()
		l.want(t, "0s bad", "0s a")
		if at := c.committed("in"); at.Offset != 2 {
			t.Errorf("offset %d is committed, want 2", at.Offset)
		}
	})
}

// A copy that cannot be written, and a commit, hold up their partition only, and are told. Nothing is
// lost, and nothing spins.
func TestWhatCannotBeWrittenIsTriedAgain(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"copy":        {Keys: []kmsg.Key{kmsg.Produce}, Topic: "w2", Err: kerr.TopicAuthorizationFailed},
		"dead letter": {Keys: []kmsg.Key{kmsg.Produce}, Topic: "dead", Err: kerr.TopicAuthorizationFailed},
		"commit":      {Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "in", Partitions: []int32{0}, Err: kerr.InvalidCommitOffsetSize},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, three, func(t *testing.T, c *cluster) {
				fault.Count = -1
				broken := c.Fault(fault)
				l, told := newLog(), newLog()
				cl := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
				defer cl.Close()
				c.produce(cl, &kgo.Record{Topic: "in", Value: []byte("bad")})
				for range 3 {
					c.produce(cl, &kgo.Record{Topic: "in", Value: []byte("behind")})
					c.produce(cl, &kgo.Record{Topic: "in", Partition: 1, Value: []byte("beside")})
				}
				attempts := 2
				if name == "dead letter" {
					attempts = 1
				}
				x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, attempts), Waits: waits, Dead: "dead", Handle: handler(l),
					Report: func(err error) { told.add("%v", err) }})
				time.Sleep(10 * time.Minute)
				if got := l.count("beside"); got != 3 {
					t.Errorf("%d records of the other partition were handled, want 3", got)
				}
				if got := l.count("behind"); got != 0 {
					t.Errorf("%d records behind it were handled, want none", got)
				}
				if n := len(told.all()); n < 100 || n > 350 {
					t.Errorf("Report got %d errors in ten minutes, want one in some seconds:\n%s", n, strings.Join(told.all()[:min(n, 9)], "\n"))
				}
				broken.Remove()
				l.wait(t, 3+3+attempts)
				time.Sleep(2 * time.Minute)
				x.stop()
				if got := l.count("bad"); got != attempts {
					t.Errorf("the bad record ran %d times, want %d", got, attempts)
				}
				if got := l.count("behind"); got != 3 {
					t.Errorf("%d records behind it were handled, want 3", got)
				}
				if n := c.stored("dead"); n != 1 {
					t.Errorf("%d dead letters, want 1", n)
				}
			})
		})
	}
}

// So does a Run whose context has a deadline, until then.
func TestADeadlineOfRun(t *testing.T) {
	for name, tt := range map[string]struct {
		fault kfake.Fault
		runs  int // before the deadline
	}{
		"copy": {kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "w1", Err: kerr.TopicAuthorizationFailed}, 1},
		"note": {kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.InvalidCommitOffsetSize}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, three, func(t *testing.T, c *cluster) {
				tt.fault.Count = 1000
				broken := c.Fault(tt.fault)
				c.publish("bad")
				l := newLog()
				h := &retrykafka.Handler{Policy: exact(10*time.Second, 50), Waits: waits, Dead: "dead", Handle: handler(l)}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				cl := c.client(append(h.Options("in"), kgo.ConsumerGroup("g"))...)
				defer cl.CloseAllowingRebalance()
				if err := h.Run(ctx, cl); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Run() = %v, want the context's cause", err)
				}
				if n := l.count("bad"); n != tt.runs {
					t.Errorf("it ran %d times, want %d", n, tt.runs)
				}
				if n := broken.Hits(); n < 8 || n > 30 {
					t.Errorf("%d requests failed in 30 seconds, want one in some seconds", n)
				}
			})
		})
	}
}

// A deadline of Handler.Context is Handle's. What was decided is written after it too, and the record does
// not run again meanwhile.
func TestADeadlineOfContext(t *testing.T) {
	for name, tt := range map[string]struct {
		topic    string // which cannot be written
		attempts int
	}{
		"copy":        {"w1", 2},
		"dead letter": {"dead", 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, three, func(t *testing.T, c *cluster) {
				c.publish("bad")
				l := newLog()
				broken := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: tt.topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
				x := c.consume(&retrykafka.Handler{Policy: exact(10*time.Second, tt.attempts), Waits: waits, Dead: "dead",
					Context: func(ctx context.Context, r *kgo.Record) context.Context {
						ctx, cancel := context.WithTimeout(ctx, time.Second)
						context.AfterFunc(ctx, cancel)
						return ctx
					},
					Handle: handler(l)})
				time.Sleep(9 * time.Second)
				l.want(t, "0s bad")
				broken.Remove()
				time.Sleep(time.Minute)
				x.stop()
				if n := l.count("bad"); n != tt.attempts {
					t.Errorf("it ran %d times, want %d", n, tt.attempts)
				}
				if dead := c.records("dead"); len(dead) != 1 || !strings.HasSuffix(header(dead[0], "retry-error"), errDown.Error()) {
					t.Errorf("the dead letters are %v, want one with the error of Handle", dead)
				}
			})
		})
	}
}

// A fetch that fails is told, and does not spin.
func TestFetchErrorsAreTold(t *testing.T) {
	bubble(t, 1, plain, func(t *testing.T, c *cluster) {
		l, told := newLog(), newLog()
		c.publish("a")
		broken := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "in", Err: kerr.TopicAuthorizationFailed, Count: -1})
		x := c.consume(&retrykafka.Handler{Policy: exact(time.Minute, 1), Handle: handler(l), Report: func(err error) { told.add("%v", err) }})
		time.Sleep(time.Minute)
		if n := len(told.all()); n == 0 || n > 620 {
			t.Errorf("Report got %d errors in a minute, want some, and not more than ten a second", n)
		}
		broken.Remove()
		l.wait(t, 1)
		x.stop()
	})
}

// While the broker is away nothing is lost and nothing spins. It is told.
func TestABrokerThatIsAway(t *testing.T) {
	bubble(t, 4, three, func(t *testing.T, c *cluster) {
		l, told := newLog(), newLog()
		for i := range 40 {
			c.publish(fmt.Sprintf("bad%d", i))
		}
		h := &retrykafka.Handler{Policy: exact(time.Minute, 2), Waits: waits, Dead: "dead", Report: func(err error) { told.add("%v", err) }}
		h.Handle = func(_ context.Context, r *kgo.Record) error {
			l.add("%s", text(r))
			time.Sleep(time.Second)
			return errDown
		}
		x := c.consume(h)
		l.wait(t, 10)
		c.away.Store(true)
		time.Sleep(time.Hour)
		if n := len(told.all()); n < 100 || n > 10*3600 {
			t.Errorf("Report got %d errors in an hour, want some in each minute", n)
		}
		c.away.Store(false)
		time.Sleep(10 * time.Minute)
		x.stop()
		for i := range 40 {
			if n := l.count(fmt.Sprintf("bad%d", i)); n < 2 {
				t.Errorf("record %d ran %d times", i, n)
			}
		}
		dead := map[string]bool{}
		for _, r := range c.records("dead") {
			dead[text(r)] = true
		}
		if len(dead) != 40 {
			t.Errorf("%d records are dead, want 40", len(dead))
		}
	})
}
