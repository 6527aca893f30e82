package limit_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/goretry/retry/internal/loadlab"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/limit"
)

func none() loadlab.Limiter     { return loadlab.None{} }
func adaptive() loadlab.Limiter { return loadlab.Guard{Guard: new(limit.Adaptive)} }

// long reports whether all worlds are to be played, and skips the test under the race detector, which
// finds nothing where one goroutine runs at a time.
func long(t *testing.T) bool {
	if race.Enabled {
		t.Skip("simulates minutes, one goroutine at a time")
	}
	return os.Getenv("RETRY_LONG") == "1"
}

// harm is how many of a hundred calls more are lost with a limit than without, in some worlds.
type harm struct {
	worlds, over int // more than a point
	worst, sum   float64
}

func (l *harm) add(points float64) {
	l.worlds++
	if points > 1 {
		l.over++
	}
	l.worst = max(l.worst, points)
	l.sum += max(points, 0)
}

func (l *harm) String() string {
	return fmt.Sprintf("%d of %d worlds lose more than a point, the worst %.1f, on average %.2f", l.over, l.worlds, l.worst, l.sum/float64(l.worlds))
}

// What an Adaptive harms where nothing is overloaded. With RETRY_LONG=1 and -v it prints the worlds that
// lose more than a point. In the first half minute of the worst a dependency begins to take ten seconds
// in place of one, as long as attempts have: one experiment is a minute there.
func TestAdaptiveInCalmWorlds(t *testing.T) {
	all := long(t)
	quick := map[string]bool{ // of the short run: these cost nothing
		"steady: 50ms at 100/s": true, "steady: 8s at 5/s": true, "429: 33 % of 50ms at 5/s": true, "hang: 50 % of 50ms at 5/s": true,
		"spread: 5ms, 60 % take 5s": true, "one of 2 replicas hangs, timeout 1s": true, "step: 50ms times 10 for a minute, timeout 10s, at 10/s": true,
		"callers: 50 % have 100ms, answers take 80 to 300": true,
	}
	var whole, first, held harm
	for _, w := range loadlab.Calm() {
		if !all && !quick[w.Name] {
			continue
		}
		delete(quick, w.Name)
		without, with := w.Run(t, 1, none, nil), w.Run(t, 1, adaptive, nil)
		a, b := with.All.Percent()-without.All.Percent(), with.Early.Percent()-without.Early.Percent()
		whole.add(a)
		first.add(b)
		if w.HeldOut() {
			held.add(a)
		}
		if max(a, b) > 1 {
			t.Logf("%-66s %5.1f %+5.1f, in the first half minute %5.1f %+5.1f", w.Name, without.All.Percent(), a, without.Early.Percent(), b)
		}
	}
	if !all {
		if len(quick) > 0 {
			t.Errorf("no worlds %v", quick)
		}
		if whole.worst > .2 || first.worst > .2 {
			t.Errorf("%v; in the first half minute %v; want none", &whole, &first)
		}
		return
	}
	t.Logf("%v; in the first half minute %v", &whole, &first)
	t.Logf("of the worlds that no law was tuned with: %v", &held)
	if whole.over > 12 || whole.worst > 10 || whole.sum > .3*float64(whole.worlds) {
		t.Errorf("%v; want at most 12, 10 and .3", &whole)
	}
	if first.over > 25 || first.worst > 32 {
		t.Errorf("in the first half minute %v; want at most 25 and 32", &first)
	}
}

// What an Adaptive does against an overload. The figure is how many of a hundred calls succeed once
// the world has settled.
func TestAdaptiveInOverloads(t *testing.T) {
	all := long(t)
	short := map[string]bool{
		"fifo: 150 %, 1 processes, budget true": true, "fifo: 110 %, 30 processes, budget true": true, "fifo 600: 300 %, 1 processes, budget false": true,
		"fifo: 90 %, hangs 10s, 1 processes, budget true": true, "sharing: 110 %, 1 processes, budget true": true,
	}
	served := map[string][]float64{}
	seeds := 1
	if all {
		seeds = 3
	}
	for _, w := range loadlab.Overloads() {
		if !all && !short[w.Name] {
			continue
		}
		delete(short, w.Name)
		without, with := w.Run(t, seeds, none, nil), w.Run(t, seeds, adaptive, nil)
		n, a := 100-without.Late.Percent(), 100-with.Late.Percent()
		t.Logf("%-64s %5.1f, %5.1f without", w.Name, a, n)
		if a < n-5 {
			t.Errorf("%s: %.1f succeed, and %.1f without a limit", w.Name, a, n)
		}
		order, _, _ := strings.Cut(w.Name, ":")
		order, _, _ = strings.Cut(order, " ")
		processes := "1"
		if strings.Contains(w.Name, " 30 ") {
			processes = "30"
		}
		served[order+" "+processes] = append(served[order+" "+processes], a)
		if strings.HasPrefix(w.Name, "fifo: 90 %, hangs 10s") && processes == "1" {
			served["fifo after a hang of 10 s"] = append(served["fifo after a hang of 10 s"], a)
		}
	}
	if len(short) > 0 && !all {
		t.Errorf("no worlds %v", short)
	}
	want := map[string]float64{"fifo 1": 69, "fifo 30": 66, "fifo after a hang of 10 s": 94.5, "lifo 1": 60, "lifo 30": 60, "random 1": 40, "random 30": 34, "sharing 1": 46, "sharing 30": 33}
	if !all {
		want = map[string]float64{"fifo 1": 64, "fifo 30": 88, "fifo after a hang of 10 s": 94, "sharing 1": 70}
	}
	for key, least := range want {
		mean := 0.
		for _, a := range served[key] {
			mean += a / float64(len(served[key]))
		}
		t.Logf("%s: %.1f of a hundred in %d worlds", key, mean, len(served[key]))
		if mean < least || math.IsNaN(mean) {
			t.Errorf("%s: %.1f of a hundred, want %.1f", key, mean, least)
		}
	}
}
