package retryqueue_test

import (
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
)

func TestSuccessAllocatesNothing(t *testing.T) {
	p := retry.Policy{Name: "job", Budget: &retry.TokenBudget{}}
	if n := testing.AllocsPerRun(1000, func() { retryqueue.After(p, 3, now, now, nil) }); n != 0 {
		t.Errorf("After(nil) allocates %v times, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() { retryqueue.Before(p, 3, now, now) }); n != 0 {
		t.Errorf("Before allocates %v times, want 0", n)
	}
}

func BenchmarkAfter(b *testing.B) {
	budget := &retry.RatioBudget{Ratio: 2}
	for _, bm := range []struct {
		name      string
		p         retry.Policy
		delivered int
		err       error
	}{
		{"success", retry.Policy{Name: "job"}, 1, nil},
		{"success with a budget", retry.Policy{Name: "job", Budget: budget}, 1, nil},
		{"retry", retry.Policy{Name: "job"}, 1, errDown},
		{"retry with a budget", retry.Policy{Name: "job", Budget: budget}, 1, errDown},
		{"retry put off by the budget", retry.Policy{Name: "job", Budget: &ledger{refuse: true}}, 1, errDown},
		{"dead", retry.Policy{Name: "job"}, 3, errDown},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				retryqueue.After(bm.p, bm.delivered, now, now, bm.err)
			}
		})
	}
}
