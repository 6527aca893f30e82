package readings_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/readings"
)

// By its name or as nil, the system's clock is read monotonically. Others are not.
func TestOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := readings.Of(nil)
		time.Sleep(time.Hour)
		if got, want := readings.Of(clockx.System()), first+time.Hour; got != want || readings.Of(nil) != want {
			t.Errorf("an hour after %v the system's clock reads %v, nil %v, want %v", first, got, readings.Of(nil), want)
		}
	})
	if got := readings.Of(clockx.NewVirtual(time.Unix(3, 4))); got != 3*time.Second+4 {
		t.Errorf("a clock reads %v, want 3.000000004s", got)
	}
}
