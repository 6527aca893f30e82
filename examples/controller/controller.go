// Package controller shows a policy in a Kubernetes controller: a rate limiter for its work
// queue, which is what controller-runtime takes as Options.RateLimiter. Copy what you need.
//
//	go test ./examples/controller
package controller

import (
	"cmp"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"k8s.io/client-go/util/workqueue"
)

// Limiter says when a work queue takes an item up again, by a policy: it is a
// [workqueue.TypedRateLimiter]. A queue does not pass the error of an item on, so call Failed with
// it first. A Limiter is safe for concurrent use.
type Limiter[T comparable] struct {
	Policy retry.Policy // the limits of a run are those of an item, until Forget

	mu    sync.Mutex
	items map[T]*item
}

var _ workqueue.TypedRateLimiter[string] = (*Limiter[string])(nil)

// item is one that has failed.
type item struct {
	loop *retry.Loop
	wait time.Duration // 0: When has returned it
}

// Failed takes the error of an item, and reports whether it is worth another try. If not, end it
// in a way that does not queue it: in controller-runtime return a reconcile.TerminalError.
func (l *Limiter[T]) Failed(key T, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed(key, err)
}

func (l *Limiter[T]) failed(key T, err error) bool {
	now := cmp.Or[clockx.Clock](l.Policy.Clock, clockx.System()).Now()
	i := l.items[key]
	if i == nil {
		if l.items == nil {
			l.items = make(map[T]*item)
		}
		i = &item{loop: l.Policy.Start(now)}
		l.items[key] = i
	}
	wait, ok := i.loop.Next(now, err)
	if !ok {
		delete(l.items, key)
		return false
	}
	i.wait = max(wait, 1)
	return true
}

// When returns how long to wait for the item. An item that is queued again without an error, by
// Result.Requeue, counts as one whose result was not good enough yet.
func (l *Limiter[T]) When(key T) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.items[key]; i != nil && i.wait > 0 || l.failed(key, retry.ErrRejected) {
		i = l.items[key]
		wait, i.wait = i.wait, 0
	}
	return wait
}

// Forget ends the run of an item: it is done.
func (l *Limiter[T]) Forget(key T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.items[key]; i != nil {
		i.loop.Close()
		delete(l.items, key)
	}
}

// NumRequeues returns how often the item has failed.
func (l *Limiter[T]) NumRequeues(key T) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.items[key]; i != nil {
		return i.loop.Attempts()
	}
	return 0
}
