package storm_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// crowd is clients that make one call after the other to a server that fails half
// of their requests: three attempts to a call and a little more, most of them
// retries, and every client always in a call or about to make one.
func crowd(clients int) storm.Service {
	return storm.Service{
		Clients:  clients,
		Closed:   true,
		Rate:     float64(clients),
		Duration: 10 * time.Second,
		Latency:  50 * time.Millisecond,
		Failure:  .5,
		Timeout:  time.Second,
		Seed:     1,
	}
}

// Attempts per second are of one core with -cpu 1; the bytes per client are what
// the garbage collector finds in use, at the worst of a few moments.
func BenchmarkAttempts(b *testing.B) {
	for _, clients := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) {
			s := crowd(clients)
			p := retry.Policy{MaxAttempts: 4, Budget: &budget.Token{Cost: -1}}
			sent := 0
			for b.Loop() {
				sent += s.Run(p).Sent
			}
			b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "attempts/s")
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(bytesPerClient(s, p), "B/client")
		})
	}
}

// bytesPerClient returns the most heap that a run has in use, by client.
func bytesPerClient(s storm.Service, p retry.Policy) float64 {
	before := inUse()
	var most uint64
	calls := 0
	p.Backoff = retry.BackoffFunc(func(step retry.Step) time.Duration {
		if calls++; calls%(s.Clients+s.Clients/3) == 0 && calls < 8*s.Clients {
			most = max(most, inUse())
		}
		return retry.Exponential{}.Delay(step)
	})
	s.Run(p)
	return float64(most-before) / float64(s.Clients)
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
