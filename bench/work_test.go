package bench_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry/bench"
)

// What all libraries are asked to do must be the same: so many calls, with the
// same waits, the same value and an error at the end.
func TestAllDoTheSame(t *testing.T) {
	doubled := bench.Spec{Attempts: 4, Wait: 100 * time.Millisecond, Max: 10 * time.Second}
	told := 0
	listening := doubled
	listening.Listener = func() { told++ }
	for _, tt := range []struct {
		name  string
		spec  bench.Spec
		fails int
		waits []time.Duration
	}{
		{"first try", doubled, 0, nil},
		{"doubled", doubled, 3, []time.Duration{100e6, 200e6, 400e6}},
		{"giving up", doubled, 4, []time.Duration{100e6, 200e6, 400e6}},
		{"no waits", bench.Spec{Attempts: 4}, 3, []time.Duration{0, 0, 0}},
		{"no limit", bench.Spec{Wait: time.Second}, 5, []time.Duration{1e9, 1e9, 1e9, 1e9, 1e9}},
		{"tokens", bench.Spec{Attempts: 4, Tokens: true}, 3, []time.Duration{0, 0, 0}},
		{"listener", listening, 3, []time.Duration{100e6, 200e6, 400e6}},
	} {
		for _, p := range bench.Peers {
			call := p.New(tt.spec)
			if call == nil {
				continue
			}
			t.Run(tt.name+"/"+p.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					told = 0
					check(t, call, tt.fails, tt.waits)
					if tt.spec.Listener != nil && told != len(tt.waits) {
						t.Errorf("the listener was told %d times, want %d", told, len(tt.waits))
					}
				})
			})
		}
	}
	for _, p := range bench.Peers {
		if p.Inline == nil {
			continue
		}
		t.Run("inline/"+p.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waits []time.Duration // ours are jittered, as the zero Jitter is
				if p.Name != own {
					waits = []time.Duration{100e6, 200e6, 400e6}
				}
				check(t, p.Inline, 3, waits)
			})
		})
	}
}

func check(t *testing.T, call bench.Call, fails int, waits []time.Duration) {
	op := new(recorder)
	v, err := call(t.Context(), func(ctx context.Context) (bench.Row, error) {
		if _, err := op.call(ctx); len(op.at) <= fails {
			return bench.Row{}, err
		}
		return ada, nil
	})
	if waits != nil && !slices.Equal(op.waits(), waits) {
		t.Errorf("waits %v, want %v", op.waits(), waits)
	}
	if gaveUp := len(op.at) <= fails; gaveUp == (err == nil) {
		t.Errorf("%d calls, error = %v", len(op.at), err)
	}
	if err == nil && v != ada {
		t.Errorf("value = %v, want %v", v, ada)
	}
}
