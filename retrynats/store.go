package retrynats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/nats-io/nats.go/jetstream"
)

// Store is an entry of a key-value bucket where processes that share a quota meet: for
// [pace.Pace.Share]. It is safe for concurrent use: do not change or copy it after its first use.
// Use one Key for each quota, as the server counts it: for each model and API key, for instance.
//
// Reserve reads the entry, and replaces it if nobody else has done so meanwhile. Otherwise it
// begins again. That is for quotas of which all processes together reserve up to about 50 times a
// second: with more, conflicts take most of the time. Package retryredis does thousands. A bucket
// that is held in memory is fast enough. That of a single server is gone when the server restarts:
// use FileStorage there. For a cluster:
//
//	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
//		Bucket: "paces", Storage: jetstream.MemoryStorage, Replicas: 3, TTL: time.Hour,
//	})
//
// A TTL must not end before all of the quota is free again, nor within ten minutes: that of ten calls a day without
// a Burst is a day. Reserve returns an error that says what to set if it is too short for a quota that takes longer than
// ten minutes.
//
// The clock of the server counts, as the times of entries show it: those of the processes may be
// wrong. An entry that has something else than a [pace.State] is an error, and stays as it is,
// since it may be another program's. Who can write the entry can stop all processes.
type Store struct {
	// KV has the entry. If it is nil, Reserve returns an error, and there is no news.
	KV jetstream.KeyValue

	// Key is the entry's key. That of the news is Key + ".news". Both belong to the quota
	// alone. An empty Key is treated as a nil KV.
	Key string

	mu    sync.Mutex
	clock serverClock
	ttl   time.Duration // of the bucket; negative: it has none; 0: not known yet
}

var _ pace.Store = (*Store)(nil)

var (
	errUnset   = errors.New("retrynats: set KV and Key of the Store")
	errForeign = errors.New("retrynats: the entry holds no quota: does another program use its key?")
)

// colliding is how Reserve tries again after another process's.
var colliding = retry.Policy{
	Name:        "reserve",
	MaxAttempts: retry.Unlimited,
	Backoff:     retry.Exponential{Base: 2 * time.Millisecond, Max: 50 * time.Millisecond},
	Classify: func(err error) retry.Class {
		if conflict(err) {
			return retry.Transient
		}
		return retry.Permanent
	},
}

// conflict reports whether err says that the entry has another revision.
func conflict(err error) bool {
	e, ok := errors.AsType[jetstream.JetStreamError](err)
	if !ok || e.APIError() == nil {
		return false
	}
	code := e.APIError().ErrorCode
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == 10164 // of a cluster in which another update is under way
}

// Reserve applies a to the State of the quota. See [pace.Store]. After a conflict it tries again
// until ctx ends, or its deadline is too near. If the answer of the server is lost, Reserve returns
// an error though a may have been applied: then those slots are lost.
func (s *Store) Reserve(ctx context.Context, a pace.Ask) (pace.Slots, error) {
	if !s.set() {
		return pace.Slots{}, errUnset
	}
	held := false
	slots, err := retry.Do(ctx, colliding, func(ctx context.Context) (slots pace.Slots, err error) {
		slots, held, err = s.try(ctx, a)
		return slots, err
	})
	if err != nil {
		return pace.Slots{}, err
	}
	if held {
		_, _ = s.KV.Put(ctx, s.news(), nil) // news may be lost: what was reserved counts without
	}
	return slots, nil
}

func (s *Store) set() bool { return s.KV != nil && s.Key != "" }

// news is the key of the entry that is written whenever there is news. Each step writes the
// entry of the state, so with that one all processes would hear of all steps of all others.
func (s *Store) news() string { return s.Key + ".news" }

// try applies a if nobody else applies anything meanwhile, and reports whether it has held all. It
// does not begin with what it has seen last: of many processes, another one has nearly always
// written since.
func (s *Store) try(ctx context.Context, a pace.Ask) (slots pace.Slots, held bool, err error) {
	state, revision, now, err := s.read(ctx)
	if err != nil {
		return slots, false, err
	}
	moved := state.Moved
	if slots, err = state.Reserve(now, a); err != nil {
		return pace.Slots{}, false, err
	}
	if err := s.keeps(ctx, state.Keep(a)); err != nil {
		return pace.Slots{}, false, err
	}
	text, err := json.Marshal(state)
	if err != nil {
		return pace.Slots{}, false, err
	}
	if revision == 0 {
		revision, err = s.KV.Create(ctx, s.Key, text) // which knows the revision of one that was deleted
	} else {
		revision, err = s.KV.Update(ctx, s.Key, text, revision)
	}
	if err != nil {
		return pace.Slots{}, false, err
	}
	s.wrote(ctx, revision)
	return slots, state.Moved > moved, nil
}

// shortest is for how long a bucket keeps entries at least.
const shortest = 10 * time.Minute

// keeps returns an error if the bucket does not keep an entry for so long.
func (s *Store) keeps(ctx context.Context, d time.Duration) error {
	if d <= shortest {
		return nil
	}
	s.mu.Lock()
	ttl := s.ttl
	s.mu.Unlock()
	if ttl == 0 {
		status, err := s.KV.Status(ctx)
		if err != nil {
			return err
		}
		if ttl = status.TTL(); ttl <= 0 {
			ttl = -1
		}
		s.mu.Lock()
		s.ttl = ttl
		s.mu.Unlock()
	}
	if ttl > 0 && ttl < d {
		return fmt.Errorf("retrynats: the bucket forgets the quota after %v: set its TTL to %v or more, or to none", ttl, d.Round(time.Second))
	}
	return nil
}

// read returns what the entry has, its revision, 0 if there is no entry, and the server's time.
func (s *Store) read(ctx context.Context) (state pace.State, revision uint64, now float64, err error) {
	e, err := s.KV.Get(ctx, s.Key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return state, 0, 0, err
	default:
		if state, err = parse(e.Value()); err != nil {
			return state, 0, 0, err
		}
		revision = e.Revision()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision > 0 {
		s.clock.read(e)
	}
	return state, revision, s.clock.now(), nil
}

// wrote notes that this process has just written a revision. Once a minute it reads it again: only
// so does it know what the server's clock said then.
func (s *Store) wrote(ctx context.Context, revision uint64) {
	s.mu.Lock()
	known := s.clock.wrote(revision)
	s.mu.Unlock()
	if known {
		return
	}
	if e, err := s.KV.Get(ctx, s.Key); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.clock.read(e)
	}
}

// parse reads a State as Reserve writes it.
func parse(text []byte) (s pace.State, err error) {
	numbers := map[string]*float64{"tat": &s.Tat, "at": &s.At, "moved": &s.Moved, "until": &s.Until}
	needed := len(numbers)
	numbers["passed"], numbers["ahead"], numbers["free"], numbers["freed"] = &s.Passed, &s.Ahead, &s.Free, &s.Freed
	d := json.NewDecoder(bytes.NewReader(text))
	var all map[string]float64
	if d.Decode(&all) != nil || d.More() {
		return pace.State{}, errForeign
	}
	for name, x := range all {
		switch {
		case numbers[name] == nil || math.Abs(x) > 1e12:
			return pace.State{}, errForeign
		case name == "tat" || name == "at" || name == "moved" || name == "until":
			needed--
		}
		*numbers[name] = x
	}
	if needed > 0 {
		return pace.State{}, errForeign
	}
	return s, nil
}

// serverClock knows the server's clock by the times of entries. One that this process has just
// written tells it. Any other is at least as old as it seems.
type serverClock struct {
	begin   time.Time // of this process's time, which no setting of a clock changes
	heard   bool      // an entry has been read
	ahead   float64   // seconds by which this process's time is ahead, at most
	at      float64   // when that was known
	checked float64   // when an entry of this process was read; 0: never
	last    uint64    // the revision that this process wrote last,
	done    float64   // and when
}

const (
	drift = 1e-4 // seconds by which clocks may go apart in a second
	fresh = 60   // seconds for which the time of an own entry counts
)

func (c *serverClock) since() float64 {
	if c.begin.IsZero() {
		c.begin = time.Now()
	}
	return time.Since(c.begin).Seconds()
}

// wrote notes a revision, and reports whether the clock is known well enough without its time.
func (c *serverClock) wrote(revision uint64) (known bool) {
	c.last, c.done = revision, c.since()
	return c.checked > 0 && c.done-c.checked < fresh
}

// read learns from an entry that was just read.
func (c *serverClock) read(e jetstream.KeyValueEntry) {
	here := c.since()
	then, own := here, e.Revision() == c.last
	if own {
		then, c.checked = c.done, max(here, drift)
	}
	ahead := then - float64(e.Created().UnixMicro())/1e6
	behind := ahead - c.ahead - (here-c.at)*drift
	if !c.heard || behind < 0 || own && behind > 1 { // or the server's clock was put back
		c.heard, c.ahead, c.at = true, ahead, here
	}
}

// now returns the time of the server, in seconds since 1970, or a little before it.
func (c *serverClock) now() float64 {
	here := c.since()
	if !c.heard { // there has been no entry: this process's clock will do for the first
		return float64(time.Now().UnixMicro()) / 1e6
	}
	return here - c.ahead - (here-c.at)*drift
}

// News returns a channel that gets an element when a process has held the quota. What happens while
// the connection is lost, it gets later. Elements that nobody has received yet are one. When ctx
// ends, so does the subscription: at once, unless it is just being made, which the timeout of the
// JetStream context limits. Then the channel is closed.
func (s *Store) News(ctx context.Context) <-chan struct{} {
	news := make(chan struct{}, 1)
	if s.set() {
		// Errors are tried again after up to twenty seconds: the bucket may come back.
		forever := retry.Policy{Name: "news", Classify: func(error) retry.Class { return retry.Transient }}
		go func() {
			defer close(news)
			_ = retry.Supervise(ctx, forever, 0, func(ctx context.Context) error { return s.watch(ctx, news) })
		}()
	}
	return news
}

var errEnded = errors.New("retrynats: the subscription has ended")

func (s *Store) watch(ctx context.Context, news chan<- struct{}) error {
	w, err := s.KV.Watch(ctx, s.news(), jetstream.UpdatesOnly())
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-w.Updates():
			if !ok {
				return errEnded
			}
			select {
			case news <- struct{}{}:
			default:
			}
		}
	}
}
