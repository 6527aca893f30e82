package retrydebug_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydebug"
)

// The page says of a call that waits for its turn what it waits for, and until when.
func TestCallsThatWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		pace := new(retry.Pace)
		refuse := func() {
			_ = retry.Run(t.Context(), retry.Policy{Pace: pace, MaxAttempts: 1}, func(context.Context) error { return retry.After(errDown, 0) })
		}
		refuse()
		time.Sleep(10 * time.Second)
		refuse()
		refuse() // now one attempt starts every ten seconds
		p := retry.Policy{Name: "model", Pace: pace, Hooks: page.Hooks()}
		_ = retry.Run(t.Context(), p, func(context.Context) error { return nil })
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = retry.Run(ctx, p, func(context.Context) error { return nil }) }()
		time.Sleep(2 * time.Second)
		if text := get(t, &page, "").Body.String(); !strings.Contains(text, "waiting for its turn") {
			t.Errorf("the page does not say what the call waits for:\n%s", text)
		}
		cancel()
		synctest.Wait()
	})
}
