package bench_test

import (
	"testing"

	"github.com/goretry/retry/bench"
)

// BenchmarkAll has the items of the table, for profiles of one of them: compare
// with cmd/table, which runs them in turns.
func BenchmarkAll(b *testing.B) { benchmark(b, bench.Items()) }

// BenchmarkHTTP has those of HTTP.
func BenchmarkHTTP(b *testing.B) { benchmark(b, bench.HTTP()) }

func benchmark(b *testing.B, items []bench.Item) {
	for _, item := range items {
		for _, c := range item.Cases {
			if c.Run == nil {
				continue
			}
			b.Run(item.Name+"/"+c.Name, func(b *testing.B) {
				b.ReportAllocs()
				c.Run(b.N)
			})
		}
	}
}
