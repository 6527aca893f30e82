package retrynats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
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
// A TTL must be ten minutes at least, and as long as it takes until all of the quota is free again: for ten
// calls a day without a Burst a day. For such long ones Reserve returns an error if it is too short.
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

	clock serverClock
	ttl   atomic.Int64 // of the bucket, a time.Duration; 0: not known yet
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
	if slots, held, err = state.Reserve(now, a); err != nil {
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
	if !s.clock.wrote(revision, text) { // what the server's clock said then, only the entry knows
		if e, err := s.KV.Get(ctx, s.Key); err == nil {
			s.clock.read(e)
		}
	}
	return slots, held, nil
}

// shortest is for how long a bucket keeps entries at least.
const shortest = 10 * time.Minute

// keeps returns an error if the bucket does not keep an entry for so long.
func (s *Store) keeps(ctx context.Context, d time.Duration) error {
	if d <= shortest {
		return nil
	}
	ttl := time.Duration(s.ttl.Load())
	if ttl == 0 {
		status, err := s.KV.Status(ctx)
		if err != nil {
			return err
		}
		if ttl = status.TTL(); ttl <= 0 { // it has none
			ttl = math.MaxInt64
		}
		s.ttl.Store(int64(ttl))
	}
	if ttl < d {
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
		if json.Unmarshal(e.Value(), &state) != nil {
			return state, 0, 0, errForeign
		}
		revision = e.Revision()
		s.clock.read(e)
	}
	return state, revision, float64(s.clock.now().UnixMicro()) / 1e6, nil
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
