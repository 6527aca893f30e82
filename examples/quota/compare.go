package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"
)

// compareClients runs all clients in turns, at four fifths of the quota and at half more than it, and prints
// a table.
func compareClients(ctx context.Context, w io.Writer, processes int, lasts time.Duration) error {
	fmt.Fprintln(w, "| load | client | requests | 429 | goodput | calls that fail | wait, p50 | p99 | calls of the Redis for each request | Jain |")
	fmt.Fprintln(w, "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, load := range []float64{.8, 1.5} {
		for _, c := range clients {
			f := fleet{client: c.name, processes: processes, load: load, redis: true, lasts: lasts, every: lasts}
			o, err := f.run(ctx, io.Discard)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "| %.0f %% | %s | %d | %.1f %% | %.0f %% | %.1f %% | %.2f s | %.1f s | %.1f | %.2f |\n", 100*load, c.name, o.requests,
				percent(o.throttled, o.requests), o.goodput(load, lasts), percent(o.failed, o.calls), quantile(o.waits, .5), quantile(o.waits, .99),
				float64(o.scripts)/float64(o.requests), jain(o.each))
		}
	}
	return nil
}

// goodput is the part of what the server could have answered that it did, in percent.
func (o outcome) goodput(load float64, lasts time.Duration) float64 {
	return 100 * min(float64(o.requests-o.throttled)/(min(load, 1)*perSecond*lasts.Seconds()), 1)
}

func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// jain is Jain's index of fairness: 1 if all are equal, 1/len(xs) if one has all.
func jain(xs []float64) float64 {
	var sum, squares float64
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(xs)) * squares)
}
