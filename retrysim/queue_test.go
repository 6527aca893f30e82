package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
)

// The outage of docs/queues.md: ten messages a second for 45 minutes, and fifty workers. A message
// takes a tenth of a second. From minute 10 to minute 30 what its handler depends on is down, which it
// learns in 10 ms.
const (
	queueRate    = 10
	queueWorkers = 50
	queueLength  = 45 * time.Minute
	queueDown    = 10 * time.Minute
	queueUp      = 30 * time.Minute
)

// queued is what became of the messages.
type queued struct {
	tried, done []int // by minute
	dead        int
	calls       int           // during the outage
	last        time.Duration // when the last message was done that came before the end of the outage, after that end
}

type message struct {
	number, delivered int
	stored            time.Time
}

// runQueue runs the queue with the library's own decisions and, if gate is set, its own Gate.
func runQueue(t *testing.T, policy retry.Policy, gated bool) (q queued) {
	synctest.Test(t, func(t *testing.T) {
		start, random := time.Now(), rand.New(rand.NewPCG(1, 2))
		policy.Rand = random.Float64
		down := func() bool { at := time.Since(start); return at >= queueDown && at < queueUp }
		messages := int(queueLength/time.Second) * queueRate
		ready := make(chan message, messages)
		left := messages
		ctx, end := context.WithCancel(t.Context())
		count := func(by *[]int) {
			minute := int(time.Since(start) / time.Minute)
			for len(*by) <= minute {
				*by = append(*by, 0)
			}
			(*by)[minute]++
		}
		over := func() {
			if left--; left == 0 {
				end()
			}
		}
		var gate *retryqueue.Gate
		if gated {
			gate = &retryqueue.Gate{Policy: retry.Policy{Rand: func() float64 { return .5 }}} // who of the workers asks first is chance
		}
		var mu sync.Mutex
		work := func(m message) error {
			if down() {
				q.calls++
				return errOutage
			}
			return nil
		}
		for range queueWorkers {
			go func() {
				for {
					done := func(string, error) {}
					if gate != nil {
						var err error
						if done, err = gate.Wait(ctx); err != nil {
							return
						}
					}
					var m message
					select {
					case m = <-ready:
					case <-ctx.Done():
						return
					}
					took := 100 * time.Millisecond
					if down() {
						took = 10 * time.Millisecond
					}
					time.Sleep(took)
					mu.Lock()
					err := work(m)
					done(fmt.Sprint(m.number), err)
					m.delivered++
					count(&q.tried)
					d := retryqueue.Delivery{Number: m.delivered, Stored: m.stored, Now: time.Now()}.After(policy, err)
					switch d.Action {
					case retryqueue.Ack:
						count(&q.done)
						if m.stored.Sub(start) < queueUp {
							q.last = max(q.last, time.Since(start)-queueUp)
						}
						over()
					case retryqueue.Retry:
						time.AfterFunc(d.Delay, func() { ready <- m })
					default:
						q.dead++
						over()
					}
					mu.Unlock()
				}
			}()
		}
		for i := range messages {
			ready <- message{number: i, stored: time.Now()}
			time.Sleep(time.Second / queueRate)
		}
		<-ctx.Done()
	})
	return q
}

var errOutage = errors.New("the dependency is down")

var queueRows = []struct {
	name   string
	policy retry.Policy
	gated  bool
}{
	{"Ten deliveries within minutes", retry.Policy{MaxAttempts: 10, Backoff: retry.Exponential{Base: time.Second, Max: time.Minute}}, false},
	{"Twenty deliveries within hours", retry.Policy{MaxAttempts: 20, Backoff: retry.Exponential{Base: time.Second, Max: time.Hour}}, false},
	{"Ten deliveries within minutes, and a Gate", retry.Policy{MaxAttempts: 10, Backoff: retry.Exponential{Base: time.Second, Max: time.Minute}}, true},
}

// The picture of docs/queues.md is what the simulation gives, and so are the page's figures.
func TestQueuesOfThePage(t *testing.T) {
	notUnderRace(t)
	long(t)
	f := figure{
		title: "A dependency is down for twenty minutes: what becomes of the messages of a queue without a Gate and with one", width: 760, height: 110,
		legend: []series{{name: "deliveries per second", color: 1}, {name: "messages handled per second", color: 2, style: "area"}},
	}
	page := readPage(t, "../docs/queues.md")
	for _, row := range queueRows {
		q := runQueue(t, row.policy, row.gated)
		said := fmt.Sprintf("%d of %d messages die, %d calls fail, and the last message of the outage is done %s after it",
			q.dead, int(queueLength/time.Second)*queueRate, q.calls, roughly(q.last))
		t.Logf("%s: %s", row.name, said)
		if cells := fmt.Sprintf("| %s | %d | %d | %s |", row.name, q.dead, q.calls, roughly(q.last)); !strings.Contains(page, cells) {
			t.Errorf("docs/queues.md has no row %s", cells)
		}
		p := panel{title: row.name + ": " + said, x: "minutes", y: "per second", from: queueDown.Minutes(), to: queueUp.Minutes(), band: "it is down", top: 60}
		p.lines = []series{{color: 2, style: "area", points: perMinute(q.done)}, {color: 1, points: perMinute(q.tried)}}
		f.panels = append(f.panels, p)
	}
	var b strings.Builder
	f.svg(&b)
	compare(t, "../docs/gate.svg", b.String())
}

// perMinute returns rates per second, of the first 75 minutes.
func perMinute(counts []int) (points []point) {
	for minute := range 75 {
		n := 0
		if minute < len(counts) {
			n = counts[minute]
		}
		points = append(points, point{x: float64(minute) + .5, y: float64(n) / 60})
	}
	return points
}

func roughly(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
