package retryredis

import (
	"context"
	_ "embed"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/goretry/retry/pace"
	"github.com/redis/go-redis/v9"
)

// Store is a key in Redis where processes that share a quota meet. It has no state, and is safe
// for concurrent use: do not change it after its first use. Use one key for each quota, as the
// server counts it: for each model and API key, for instance.
type Store struct {
	// Client is a client of Redis alone, with Sentinel, of a cluster or of a ring. It can be
	// one that does other work too. If it is nil, Reserve returns an error, and there is no
	// news.
	Client redis.UniversalClient

	// Key is the key, and the channel of the news. It belongs to the quota alone. An empty Key
	// is treated as a nil Client.
	Key string
}

var _ pace.Store = (*Store)(nil)

//go:embed reserve.lua
var script string

var law = redis.NewScript(script)

var (
	errUnset  = errors.New("retryredis: set Client and Key of the Store")
	errAnswer = errors.New("retryredis: the answer is not one of the script: is it a Redis, of version 5 or later?")
)

// Reserve applies a to the State of the quota. See [pace.Store].
//
// It returns when ctx ends, though a client whose ContextTimeoutEnabled is not set ends its
// request by its own timeouts. Redis may have applied a whenever there is an error, and if the
// client repeats a request whose connection was lost, twice: then those slots are lost.
func (s *Store) Reserve(ctx context.Context, a pace.Ask) (pace.Slots, error) {
	return s.reserve(ctx, "", a)
}

// reserve is Reserve at a time of the test. "" is that of the server.
func (s *Store) reserve(ctx context.Context, now any, a pace.Ask) (pace.Slots, error) {
	if !s.set() {
		return pace.Slots{}, errUnset
	}
	type reply struct {
		words []string
		err   error
	}
	replied := make(chan reply, 1)
	go func() {
		words, err := law.Run(ctx, s.Client, []string{s.Key}, a.Rate, a.Burst, a.Want, a.Least, a.Unused, a.Spent, a.Hold, a.Row, a.Passed, a.Patience, now).StringSlice()
		replied <- reply{words, err}
	}()
	select {
	case <-ctx.Done():
		return pace.Slots{}, context.Cause(ctx)
	case got := <-replied:
		if reply, ok := got.err.(redis.Error); ok {
			return pace.Slots{}, refused{reply}
		}
		if got.err != nil {
			return pace.Slots{}, got.err
		}
		return parse(got.words)
	}
}

// refused is an error that Redis has replied. It begins with a word such as WRONGTYPE, NOPERM or
// READONLY, which metrics show.
type refused struct{ reply redis.Error }

func (e refused) Error() string { return e.reply.Error() }
func (e refused) Unwrap() error { return e.reply }

func (e refused) ErrorType() string {
	word, _, _ := strings.Cut(e.Error(), " ")
	return word
}

func (s *Store) set() bool { return s.Client != nil && s.Key != "" }

// parse reads an answer as the script writes it.
func parse(words []string) (pace.Slots, error) {
	if len(words) != 4 {
		return pace.Slots{}, errAnswer
	}
	var xs [4]float64
	for i, word := range words {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return pace.Slots{}, errAnswer
		}
		xs[i] = x
	}
	return pace.Slots{N: xs[0], Wait: xs[1], Moved: xs[2], Held: xs[3]}, nil
}

// News returns a channel that gets an element when a process has held the quota, and when the
// connection was lost and is back, since news may have been missed. Elements that nobody has
// received yet are one. When ctx ends, so does the subscription: at once, unless the client is just
// connecting, which it ends by its own timeouts. Then the channel is closed. A client that is closed
// before writes to standard error, in some versions.
func (s *Store) News(ctx context.Context) <-chan struct{} {
	news := make(chan struct{}, 1)
	if s.set() {
		go s.listen(ctx, news)
	}
	return news
}

func (s *Store) listen(ctx context.Context, news chan<- struct{}) {
	defer close(news)
	sub := s.Client.Subscribe(ctx, s.Key)
	defer sub.Close()
	subscribed := false
	for messages := sub.ChannelWithSubscriptions(); ; {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			if _, first := m.(*redis.Subscription); first && !subscribed {
				subscribed = true
				continue
			}
			select {
			case news <- struct{}{}:
			default:
			}
		}
	}
}
