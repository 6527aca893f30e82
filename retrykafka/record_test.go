package retrykafka

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A worker that ends before its first record has started leaves the offset and the metadata as they were.
func TestAWorkerThatDoesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const metadata = "retry ended 7 3 1000"
	w := newWorker(ctx, new(Handler), place{topic: "in"}, &kgo.Record{Offset: 7, LeaderEpoch: 2}, metadata)
	w.run()
	if got, want := w.mark.EpochOffset, (kgo.EpochOffset{Epoch: 2, Offset: 7}); got != want || w.mark.metadata(unused) != metadata {
		t.Errorf("it leaves %+v", w.mark)
	}
}

// A Handler outlives its clients, and forgets their partitions.
func TestAHandlerForgetsPartitionsThatAreGone(t *testing.T) {
	h := new(Handler)
	one, other := new(kgo.Client), new(kgo.Client)
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Groups = []kmsg.OffsetFetchResponseGroup{{Topics: []kmsg.OffsetFetchResponseGroupTopic{{Topic: "in", Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{
		{Partition: 0, Metadata: kmsg.StringPtr("m")}, {Partition: 1, Metadata: kmsg.StringPtr("m")}, {Partition: 2},
	}}}}}
	_ = h.fetched(t.Context(), one, resp)
	_ = h.fetched(t.Context(), other, resp)
	h.end(one, map[string][]int32{"in": {0, 2}, "out": {1}})
	if want := map[place]string{{one, "in", 1}: "m", {other, "in", 0}: "m", {other, "in", 1}: "m"}; !maps.Equal(h.metadata, want) {
		t.Errorf("it knows %v, want %v", h.metadata, want)
	}
	h.end(one, nil) // as Run ends: what is assigned stays so
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.worker(ctx, place{other, "in", 0}, &kgo.Record{Topic: "in"}) // which has it now
	if len(h.metadata) != 2 || len(h.end(other, nil)) != 1 {
		t.Errorf("it knows %v", h.metadata)
	}
}

// Options leaves the slice of its caller alone.
func TestOptionsOfAPartOfASlice(t *testing.T) {
	topics := []string{"in", "other"}
	if (&Handler{Waits: []Wait{{"w", time.Second}}}).Options(topics[:1]...); topics[1] != "other" {
		t.Errorf("the caller's topics are %q", topics)
	}
}

// Offsets have gaps, and the epoch of a leader changes.
func TestTheMarkFollowsTheRecords(t *testing.T) {
	h := &Handler{Handle: func(context.Context, *kgo.Record) error { return nil }}
	first := &kgo.Record{Topic: "in", Offset: 7, LeaderEpoch: 2}
	w := newWorker(t.Context(), h, place{topic: "in"}, first, "")
	w.careful = 0 // there is no broker
	for _, r := range []*kgo.Record{first, {Topic: "in", Offset: 8, LeaderEpoch: 3}, {Topic: "in", Offset: 12, LeaderEpoch: 4}} {
		w.arrived.add([]*kgo.Record{r})
		w.step(r)
		if got, want := w.mark, (mark{EpochOffset: kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}}); got != want {
			t.Errorf("after record %d the mark is %+v, want %+v", r.Offset, got, want)
		}
	}
}

// A mark that was written is read on its own record, and no other metadata makes one.
func FuzzMark(f *testing.F) {
	f.Add("retry running 5 2 1000", int64(5), 2, int64(1000))
	f.Add("retry ended -1 -1 -1", int64(-1), 0, int64(0))
	f.Add("member", int64(1<<62), 1<<30, int64(1<<60))
	f.Fuzz(func(t *testing.T, metadata string, offset int64, starts int, due int64) {
		r := &kgo.Record{Offset: offset, LeaderEpoch: 3}
		if m, _ := readMark(r, metadata); m.EpochOffset != markOf(r).EpochOffset || m.starts < 0 || !m.due.IsZero() && m.due.UnixMilli() <= 0 {
			t.Errorf("readMark(%q) = %+v", metadata, m)
		}
		if starts < 0 || due < 0 {
			return
		}
		want := markOf(r)
		want.starts = starts
		if due > 0 {
			want.due = time.UnixMilli(due)
		}
		for state, orderly := range map[string]bool{inUse: false, unused: true} {
			text := want.metadata(state)
			if got, ended := readMark(r, text); got != want || ended != orderly {
				t.Errorf("readMark(%q) = %+v, %t, want %+v", text, got, ended, want)
			}
			other := &kgo.Record{Offset: offset + 1}
			if got, ended := readMark(other, text); got != markOf(other) || ended != orderly {
				t.Errorf("readMark(%q) of another record = %+v, %t", text, got, ended)
			}
		}
	})
}

// What a copy's headers say is read back, and headers of any other kind do no harm.
func FuzzHeaders(f *testing.F) {
	f.Add("retry-number", "3", "retry-origin", "a/1/2", int64(7), 3, int64(9))
	f.Add("retry-number", "9223372036854775807", "", "", int64(0), 1, int64(1)) // another start must not make it negative
	f.Add("retry-number", "0", "retry-number", "-9", int64(0), 1, int64(1))
	f.Add("retry-due", "9223372036854775807", "retry-origin", "a//", int64(-7), 0, int64(0))
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string, first int64, number int, due int64) {
		h := &Handler{Waits: []Wait{{"w", time.Second}}}
		w := &worker{handler: h, delay: time.Second}
		strange := &kgo.Record{Topic: "w", Headers: []kgo.RecordHeader{{Key: key1, Value: []byte(value1)}, {Key: key2, Value: []byte(value2)}}}
		d := w.read(strange)
		if d.number < 1 || d.number > 1<<30 || slices.ContainsFunc(d.record.Headers, ours) {
			t.Errorf("of %v it reads %+v", strange.Headers, d)
		}
		if first < -1e15 || first > 1e15 || due <= 0 || due > 1e15 || number < 1 || number > 1<<30 {
			return
		}
		published := &kgo.Record{Topic: "in", Partition: math.MaxInt32, Offset: math.MaxInt64, Key: []byte(key1), Timestamp: time.UnixMilli(first),
			Headers: []kgo.RecordHeader{{Key: "x" + key2, Value: []byte(value2)}}}
		c := delivery{record: published, due: time.UnixMilli(due)}.wait(h.Waits, number)
		got := w.read(c)
		r := got.record
		if r.Topic != "in" || r.Partition != math.MaxInt32 || r.Offset != math.MaxInt64 || !r.Timestamp.Equal(published.Timestamp) || string(r.Key) != key1 || len(r.Headers) != 1 ||
			got.number != number || !got.due.Equal(time.UnixMilli(due)) {
			t.Errorf("a copy is read as %+v of %+v", got, r)
		}
	})
}
