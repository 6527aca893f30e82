package retryqueue_test

import (
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retryqueue"
)

func TestSuccessAllocatesNothing(t *testing.T) {
	p := retry.Policy{Name: "job", Budget: &budget.Token{}}
	if n := testing.AllocsPerRun(1000, func() { (retryqueue.Delivery{Number: 3, Stored: now, Now: now}).After(p, nil) }); n != 0 {
		t.Errorf("After(nil) allocates %v times, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() { (retryqueue.Delivery{Number: 3, Stored: now, Now: now}).Before(p) }); n != 0 {
		t.Errorf("Before allocates %v times, want 0", n)
	}
}

func BenchmarkAfter(b *testing.B) {
	budget := &budget.Ratio{Ratio: 2}
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
				(retryqueue.Delivery{Number: bm.delivered, Stored: now, Now: now}).After(bm.p, bm.err)
			}
		})
	}
}
