package limits_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/loadlab"
	"github.com/goretry/retry/limit"
)

// failsafe is an AdaptiveLimiter with its defaults, used as its executor does: each attempt that has
// ended is recorded, whatever has come of it.
type failsafe struct {
	adaptivelimiter.AdaptiveLimiter[any]
}

func (f failsafe) Enter(bool) (token any, wait time.Duration, admitted bool) {
	permit, ok := f.TryAcquirePermit()
	return permit, 0, ok
}

func (f failsafe) Leave(token any, x retry.Exit) {
	permit := token.(adaptivelimiter.Permit)
	if x.Ending == retry.Canceled {
		permit.Drop()
		return
	}
	permit.Record()
}

var limiters = []struct {
	name  string
	fresh func() loadlab.Limiter
}{
	{"limit.Adaptive{}", func() loadlab.Limiter { return loadlab.Guard{Guard: new(limit.Adaptive)} }},
	{"failsafe-go's adaptive limiter", func() loadlab.Limiter { return failsafe{adaptivelimiter.NewBuilder[any]().Build()} }},
}

func none() loadlab.Limiter { return loadlab.None{} }

func long(t *testing.T) bool {
	t.Helper()
	return os.Getenv("RETRY_LONG") == "1"
}

// What limits cost where nothing is overloaded. With -v and RETRY_LONG=1 it prints the rows of
// EXPERIMENTS.md.
func TestCalm(t *testing.T) {
	worlds := loadlab.Calm()
	if !long(t) {
		worlds = worlds[:4]
	}
	for _, l := range limiters {
		var over, overFirst int
		var worst, worstFirst, sum float64
		for _, w := range worlds {
			without, with := w.Run(t, 1, none, nil), w.Run(t, 1, l.fresh, nil)
			a, b := with.All.Percent()-without.All.Percent(), with.Early.Percent()-without.Early.Percent()
			if a > 1 {
				over++
			}
			if b > 1 {
				overFirst++
			}
			worst, worstFirst, sum = max(worst, a), max(worstFirst, b), sum+max(a, 0)
		}
		t.Logf("| %s | %d of %d | %.1f | %.2f | %d | %.1f |", l.name, over, len(worlds), worst, sum/float64(len(worlds)), overFirst, worstFirst)
		if l.name == limiters[0].name && over > 12 {
			t.Errorf("%s: %d of %d worlds lose more than a point", l.name, over, len(worlds))
		}
	}
}

// What limits do against an overload: how many of a hundred calls succeed.
func TestOverloads(t *testing.T) {
	worlds := loadlab.Overloads()
	seeds := 3
	if !long(t) {
		worlds, seeds = worlds[:2], 1
	}
	limiters := append(limiters[:len(limiters):len(limiters)], struct {
		name  string
		fresh func() loadlab.Limiter
	}{"none", none})
	for _, l := range limiters {
		served := map[string][]float64{}
		for _, w := range worlds {
			f := w.Run(t, seeds, l.fresh, nil)
			order, _, _ := strings.Cut(w.Name, ":")
			order, _, _ = strings.Cut(order, " ")
			if strings.Contains(w.Name, " 30 processes") {
				order += " 30"
			} else {
				order += " 1"
			}
			if strings.HasPrefix(w.Name, "fifo: 90 %, hangs 10s") {
				served["after a hang, "+order] = append(served["after a hang, "+order], 100-f.Late.Percent())
			}
			served[order] = append(served[order], 100-f.Late.Percent())
		}
		row := "| " + l.name + " |"
		for _, key := range []string{"fifo 1", "fifo 30", "after a hang, fifo 1", "after a hang, fifo 30", "lifo 1", "lifo 30", "random 1", "random 30", "sharing 1", "sharing 30"} {
			mean := 0.
			for _, s := range served[key] {
				mean += s / float64(len(served[key]))
			}
			row += " " + strconv.FormatFloat(mean, 'f', 0, 64) + " |"
		}
		t.Log(row)
	}
}
