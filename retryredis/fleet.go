package retryredis

import (
	"context"
	_ "embed"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/goretry/retry/fleetpace"
	"github.com/redis/go-redis/v9"
)

// Fleet is a key in Redis where processes that share a quota meet. It has no state, and is
// safe for concurrent use: do not change it after its first use. Use one key for each quota, as
// the server counts it: for each model and API key, for instance.
type Fleet struct {
	// Client is a client of Redis alone, with Sentinel, of a cluster or of a ring. It can be
	// one that does other work too. If it is nil, Exchange returns an error, and there is no
	// news.
	Client redis.UniversalClient

	// Key is the key, and the channel of the news. It belongs to the fleet alone. An empty Key
	// is treated as a nil Client.
	Key string
}

var _ fleetpace.Fleet = (*Fleet)(nil)

// Exchange applies r to the state of the quota, as one step, and returns the answer.
//
// It returns when ctx ends, though a client whose ContextTimeoutEnabled is not set ends its
// request by its own timeouts. Redis may have applied r whenever there is an error, and if the
// client repeats a request whose connection was lost, twice: then the turns that r has taken
// are lost, which delays those that come later.
func (f *Fleet) Exchange(ctx context.Context, r fleetpace.Report) (fleetpace.Answer, error) {
	return f.exchange(ctx, "", rand.Float64(), r)
}

//go:embed law.lua
var script string

var law = redis.NewScript(script)

var (
	errUnset  = errors.New("retryredis: Fleet.Client or Fleet.Key is not set")
	errAnswer = errors.New("retryredis: not an answer of the script")
)

// exchange applies r at a time of the test. "" is that of the server.
func (f *Fleet) exchange(ctx context.Context, now any, random float64, r fleetpace.Report) (fleetpace.Answer, error) {
	if !f.set() {
		return fleetpace.Answer{}, errUnset
	}
	type reply struct {
		text string
		err  error
	}
	replied := make(chan reply, 1)
	go func() {
		text, err := law.Run(ctx, f.Client, []string{f.Key}, now, random,
			r.Epoch, r.Round, r.Rate, r.Counted, r.Started, r.Hits, r.Fresh, r.Hint, r.Hold, r.Returned,
			r.Take, r.Patience, r.Costs, r.Priced).Text()
		replied <- reply{text, err}
	}()
	select {
	case <-ctx.Done():
		return fleetpace.Answer{}, ctx.Err()
	case got := <-replied:
		if got.err != nil {
			return fleetpace.Answer{}, got.err
		}
		a, err := parse(got.text)
		if err == nil {
			err = a.Check(r)
		}
		if err != nil {
			return fleetpace.Answer{}, err
		}
		return a, nil
	}
}

func (f *Fleet) set() bool { return f.Client != nil && f.Key != "" }

// parse reads an answer as the script writes it.
func parse(text string) (a fleetpace.Answer, err error) {
	var mode, news float64
	numbers := []*float64{&a.Epoch, &a.Round, &mode, &a.Rate, &a.Speed, &a.Head, &a.Tail, &a.Hold, &a.Count, &a.First, &a.Size, &a.Mean, &news}
	words := strings.Fields(text)
	if len(words) != len(numbers) {
		return a, errAnswer
	}
	for i, word := range words {
		if *numbers[i], err = strconv.ParseFloat(word, 64); err != nil {
			return a, errAnswer
		}
	}
	a.Mode, a.News = fleetpace.Mode(mode), news == 1
	if float64(a.Mode) != mode {
		return a, errAnswer
	}
	return a, nil
}

// News returns a channel that gets an element when all are to exchange soon, and when the
// connection was lost and is back, since news may have been missed. Elements that nobody has
// received yet are one. The channel is never closed. When ctx ends, so does the subscription:
// at once, unless the client is just connecting, which it ends by its own timeouts.
func (f *Fleet) News(ctx context.Context) <-chan struct{} {
	news := make(chan struct{}, 1)
	if f.set() {
		go f.listen(ctx, news)
	}
	return news
}

func (f *Fleet) listen(ctx context.Context, news chan<- struct{}) {
	sub := f.Client.Subscribe(ctx, f.Key)
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
