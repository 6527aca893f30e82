package retrykafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Headers of copies: of records in wait topics, and of dead letters. They are read in wait topics only.
const (
	numberHeader = "retry-number" // of the next delivery, or of the last one
	firstHeader  = "retry-first"  // the record's timestamp, in milliseconds
	dueHeader    = "retry-due"    // when it is to be delivered, in milliseconds
	originHeader = "retry-origin" // its topic/partition/offset
	reasonHeader = "retry-reason" // why it is dead
	errorHeader  = "retry-error"  // the last delivery's error

	mostError = 1 << 10 // bytes of it
)

func ours(h kgo.RecordHeader) bool {
	switch h.Key {
	case numberHeader, firstHeader, dueHeader, originHeader, reasonHeader, errorHeader:
		return true
	}
	return false
}

// delivery is what is known of a record that was delivered.
type delivery struct {
	record *kgo.Record // as it was published
	number int         // of the delivery, but for starts that the mark counts
	due    time.Time
}

// read returns a record as it was published, with what its headers say, and the mark.
func (w *worker) read(r *kgo.Record) delivery {
	d := delivery{record: r, number: 1}
	if slices.ContainsFunc(r.Headers, ours) {
		c := *r
		c.Headers = slices.DeleteFunc(slices.Clone(r.Headers), ours)
		d.record = &c
		if w.delay > 0 {
			d.readHeaders(r.Headers)
		}
	}
	if !w.mark.due.IsZero() {
		d.due = w.mark.due
	}
	return d
}

// readHeaders ignores what this package has not written.
func (d *delivery) readHeaders(headers []kgo.RecordHeader) {
	for _, h := range headers {
		if h.Key == originHeader {
			d.readOrigin(string(h.Value))
			continue
		}
		n, err := strconv.ParseInt(string(h.Value), 10, 64)
		if err != nil {
			continue
		}
		switch h.Key {
		case numberHeader:
			d.number = int(min(max(n, 1), 1<<30)) // starts are added
		case firstHeader:
			d.record.Timestamp = time.UnixMilli(n)
		case dueHeader:
			d.due = time.UnixMilli(n)
		}
	}
}

func (d *delivery) readOrigin(s string) {
	p := strings.Split(s, "/")
	if len(p) != 3 {
		return
	}
	partition, err1 := strconv.ParseInt(p[1], 10, 32)
	offset, err2 := strconv.ParseInt(p[2], 10, 64)
	if err1 == nil && err2 == nil {
		d.record.Topic, d.record.Partition, d.record.Offset = p[0], int32(partition), offset
	}
}

// origin tells a record from all others of the cluster.
func (d delivery) origin() string {
	return fmt.Sprintf("%s/%d/%d", d.record.Topic, d.record.Partition, d.record.Offset)
}

// wait returns a copy for that of the topics which comes closest to the time left. Its next delivery
// has that number.
func (d delivery) wait(waits []Wait, number int) *kgo.Record {
	topic, left := waits[0].Topic, time.Until(d.due)
	for _, w := range waits {
		if w.Delay <= left {
			topic = w.Topic
		}
	}
	c := d.copy(topic, number)
	set(c, dueHeader, strconv.FormatInt(ceilMilli(d.due), 10))
	return c
}

// dead returns a dead letter.
func (d delivery) dead(topic string, e *retry.Error) *kgo.Record {
	c := d.copy(topic, e.Attempts)
	set(c, reasonHeader, e.Reason.String())
	text := e.Error()
	set(c, errorHeader, strings.ToValidUTF8(text[:min(len(text), mostError)], ""))
	return c
}

func (d delivery) copy(topic string, number int) *kgo.Record {
	c := &kgo.Record{Topic: topic, Key: d.record.Key, Value: d.record.Value, Headers: slices.Clone(d.record.Headers)}
	set(c, numberHeader, strconv.Itoa(number))
	set(c, firstHeader, strconv.FormatInt(d.record.Timestamp.UnixMilli(), 10))
	set(c, originHeader, d.origin())
	return c
}

func set(r *kgo.Record, key, value string) {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
}

// write produces a copy, until it is stored or the worker has ended. A dead letter that is too large
// goes without its error.
func (w *worker) write(ctx context.Context, origin string, c *kgo.Record) error {
	return w.repeat(ctx, "copy of "+origin+" for "+c.Topic, func(ctx context.Context) error {
		try := *c // the client changes it
		stored := make(chan error, 1)
		w.client.Produce(ctx, &try, func(_ *kgo.Record, err error) { stored <- err })
		var err error
		select {
		case err = <-stored:
		case <-ctx.Done(): // what was sent the client does not give up: it may be stored still
			err = context.Cause(ctx)
		}
		if errors.Is(err, kerr.MessageTooLarge) {
			c.Headers = slices.DeleteFunc(slices.Clone(c.Headers), func(h kgo.RecordHeader) bool { return h.Key == errorHeader })
		}
		return err
	})
}
