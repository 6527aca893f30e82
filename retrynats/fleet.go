package retrynats

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/fleetpace"
	"github.com/nats-io/nats.go/jetstream"
)

// Fleet is an entry of a key-value bucket where processes that share a quota meet: for
// Pace.Share of package retry. Package fleetpace has the law by which they do. It has no state,
// and is safe for concurrent use: do not change it after its first use. Use one Key for each
// quota, as the server counts it: for each model and API key, for instance.
//
// An exchange reads the entry, and replaces it if nobody else has done so meanwhile. Otherwise
// it begins again. That is for quotas of up to about 50 exchanges a second of all processes: with
// more, conflicts take most of the time. Package retryredis makes thousands. A bucket that is
// held in memory is fast enough:
//
//	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
//		Bucket: "paces", Storage: jetstream.MemoryStorage, Replicas: 3, TTL: 10 * time.Minute,
//	})
//
// The clocks of the processes count. One that is less than a minute behind makes no difference,
// and one that is ahead makes turns come early.
//
// Who can write the entry can stop the fleet. An answer that the law cannot give is an error,
// which counts as the store being away. So is an entry that has something else than a state,
// or one that no exchange can bring about. It stays as it is, since it may be another program's
// or that of a later version of the law: each process goes on alone until the entry is deleted,
// or has expired.
type Fleet struct {
	// KV has the entry. If it is nil, Exchange returns an error, and there is no news.
	KV jetstream.KeyValue

	// Key is the entry's key. That of the news is Key + ".news". Both belong to the fleet
	// alone. An empty Key is treated as a nil KV.
	Key string
}

var _ fleetpace.Fleet = (*Fleet)(nil)

var errUnset = errors.New("retrynats: Fleet.KV or Fleet.Key is not set")

// colliding is how an exchange is tried again after another process's.
var colliding = retry.Policy{
	Name:        "exchange",
	MaxAttempts: -1,
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

// Exchange applies r to the state of the quota, as one step, and returns the answer. After a
// conflict it tries again until ctx ends, or its deadline is too near. If the answer of the
// server is lost, Exchange returns an error though r may have been applied: then the turns that
// it has taken are lost, which delays those that come later.
func (f *Fleet) Exchange(ctx context.Context, r fleetpace.Report) (fleetpace.Answer, error) {
	if !f.set() {
		return fleetpace.Answer{}, errUnset
	}
	a, err := retry.Do(ctx, colliding, func(ctx context.Context) (fleetpace.Answer, error) { return f.try(ctx, r) })
	if err != nil {
		return fleetpace.Answer{}, err
	}
	if a.News {
		// News may be lost: what was exchanged counts without.
		_, _ = f.KV.Put(ctx, f.news(), nil)
	}
	return a, nil
}

func (f *Fleet) set() bool { return f.KV != nil && f.Key != "" }

// news is the key of the entry that is written whenever there is news. Each exchange writes the
// entry of the state, so with that one all processes would hear of all exchanges of all others.
func (f *Fleet) news() string { return f.Key + ".news" }

// try makes an exchange if nobody else makes one meanwhile. It does not begin with what it has
// seen last: of many processes, another one has nearly always exchanged since.
func (f *Fleet) try(ctx context.Context, r fleetpace.Report) (fleetpace.Answer, error) {
	var s fleetpace.State
	revision := uint64(0) // there is no entry
	switch e, err := f.KV.Get(ctx, f.Key); {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return fleetpace.Answer{}, err
	default:
		if err := s.UnmarshalText(e.Value()); err != nil {
			return fleetpace.Answer{}, err
		}
		revision = e.Revision()
	}
	a := s.Apply(float64(time.Now().UnixMicro())/1e6, rand.Float64(), r)
	if err := a.Check(r); err != nil {
		return fleetpace.Answer{}, err
	}
	text, _ := s.MarshalText()
	if err := new(fleetpace.State).UnmarshalText(text); err != nil { // an infinite number of r would ruin it for all
		return fleetpace.Answer{}, err
	}
	return a, f.write(ctx, text, revision)
}

// write replaces a revision of the entry.
func (f *Fleet) write(ctx context.Context, text []byte, revision uint64) (err error) {
	if revision == 0 {
		_, err = f.KV.Create(ctx, f.Key, text) // which knows the revision of one that was deleted
	} else {
		_, err = f.KV.Update(ctx, f.Key, text, revision)
	}
	return err
}

// News returns a channel that gets an element when all are to exchange soon. What happens while
// the connection is lost, it gets later. Elements that nobody has received yet are one. The
// channel is never closed. When ctx ends, so does the subscription: at once, unless it is just
// being made, which the timeout of the JetStream context limits.
func (f *Fleet) News(ctx context.Context) <-chan struct{} {
	news := make(chan struct{}, 1)
	if f.set() {
		// Errors are tried again after up to twenty seconds: the bucket may come back.
		forever := retry.Policy{Name: "news", Classify: func(error) retry.Class { return retry.Transient }}
		go func() {
			_ = retry.Supervise(ctx, forever, 0, func(ctx context.Context) error { return f.watch(ctx, news) })
		}()
	}
	return news
}

var errEnded = errors.New("retrynats: the subscription has ended")

func (f *Fleet) watch(ctx context.Context, news chan<- struct{}) error {
	w, err := f.KV.Watch(ctx, f.news(), jetstream.UpdatesOnly())
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
