package retrydebug_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydebug"
)

// Runs of all kinds, while others read the page: go test -race.
func TestReadersAndRuns(t *testing.T) {
	var page retrydebug.Recorder
	calls := 2000
	if testing.Short() {
		calls = 200
	}
	var running sync.WaitGroup
	for g := range 8 {
		running.Go(func() {
			p := retry.Policy{Name: fmt.Sprint("op", g%3), Hooks: page.Hooks(), Backoff: retry.Constant(0)}
			for i := range calls {
				ctx, cancel := context.WithCancel(t.Context())
				n := 0
				_ = retry.Run(ctx, p, func(ctx context.Context) error {
					n++
					switch {
					case i%7 == 0:
						cancel()
					case i%5 == 0:
						return retry.Run(ctx, p.Named("inner"), func(context.Context) error { return errDown })
					}
					if n <= i%4 {
						return errDown
					}
					return nil
				})
				cancel()
				page.ObserveBudget(fmt.Sprint(i%3), observed{balance: 1})
			}
		})
	}
	done := make(chan bool)
	var reading sync.WaitGroup
	for _, query := range []string{"", "?format=json", "?window=1h"} {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					get(t, &page, query)
				}
			}
		})
	}
	running.Wait()
	close(done)
	reading.Wait()
	r := read(t, &page)
	runs := 0
	for _, o := range r.Operations {
		if o.Name != "inner" {
			runs += o.Windows["1h"].Runs
		}
	}
	if runs != 8*calls || r.Live.Total != 0 || r.Live.Waiting != 0 {
		t.Errorf("%d runs, %+v, want %d and none live", runs, r.Live, 8*calls)
	}
}
