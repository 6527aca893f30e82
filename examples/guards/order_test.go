package guards_test

import (
	"context"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
)

var (
	model  = pace.Pace{Quota: 500, Per: time.Minute, Burst: 20} // one for all calls that count against this quota
	places = limit.Limit{Max: 100}                              // one for all calls to a server
)

var policy = retry.Policy{Name: "fetch-user", Guards: []retry.Guard{&model, &places}}

func TestPolicyOfTheGuide(t *testing.T) {
	err := retry.Run(t.Context(), policy, func(context.Context) error {
		if n := places.InFlight(); n != 1 {
			t.Errorf("%d places are taken during the attempt, want 1", n)
		}
		return nil
	})
	if n := places.InFlight(); err != nil || n != 0 {
		t.Errorf("%v, and %d places are taken, want none", err, n)
	}
}
