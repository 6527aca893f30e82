package hedge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/pace"
)

// While a pace makes attempts wait, a hedge is not sent: it does not wait for its turn.
func TestNoHedgeWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := new(pace.Pace)
		var got []hedge.Summary
		h := &hedge.Hedge{Delay: 10 * time.Millisecond, Hedged: func(_ context.Context, s hedge.Summary) { got = append(got, s) }}
		call := func() {
			_, err := hedge.Do(t.Context(), retry.Policy{Guards: []retry.Guard{pace}}, h, func(ctx context.Context) (int, error) {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
				return 0, ctx.Err()
			})
			if err != nil {
				t.Error(err)
			}
		}
		call()
		pace.Tell(1, time.Minute, 1, pace.Started())
		call()
		if len(got) != 2 || got[0].Started != 2 || got[1].Started != 1 || !errors.Is(got[1].Refused, retry.ErrPaced) {
			t.Errorf("calls under an open and under a closed pace: %+v", got)
		}
	})
}
