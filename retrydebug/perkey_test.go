package retrydebug_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrydebug"
)

// Of what a PerKey has the five worst are shown, and how many there are.
func TestObservePerKey(t *testing.T) {
	for _, tt := range []struct {
		kind  string
		field func(*report) []gauge
		show  func(gauge) string
		named func(page *retrydebug.Recorder, keys *retry.PerKey[observed])
		want  string // the worst, from the third part on
		words []string
	}{
		{"budgets", func(r *report) []gauge { return r.Budgets }, func(g gauge) string { return number(g.Balance) },
			func(page *retrydebug.Recorder, keys *retry.PerKey[observed]) {
				retrydebug.ObservePerKey(page, "shards", as(keys, func(o *observed) *balanced { return &balanced{o.balance} }))
			}, "0 of 11: s0 0, s1 0.1, s2 0.2, s3 0.3, s4 0.4",
			[]string{"The budget shards: s0 has too little left for a retry.", "budget shards: s0 0% left, the lowest of 11", "budget shards: s4 40% left"}},
		{"limits", func(r *report) []gauge { return r.Limits },
			func(g gauge) string { return fmt.Sprintf("%d/%d", *g.InFlight, *g.Places) },
			func(page *retrydebug.Recorder, keys *retry.PerKey[observed]) {
				retrydebug.ObservePerKey(page, "shards", as(keys, func(o *observed) *limited { return &limited{o.inFlight, o.places} }))
			}, "20/20 of 11: s0 20/20, s1 19/20, s2 18/20, s3 17/20, s4 16/20",
			[]string{"The limit shards: s0 is full: 20 of 20 places are taken.", "limit shards: s0 20 of 20 in flight, the fullest of 11", "limit shards: s4 16 of 20 in flight"}},
		{"breakers", func(r *report) []gauge { return r.Breakers }, func(g gauge) string { return number(g.Open) },
			func(page *retrydebug.Recorder, keys *retry.PerKey[observed]) {
				retrydebug.ObservePerKey(page, "shards", as(keys, func(o *observed) *opening { return &opening{o.wait} }))
			}, "10 of 11: s0 10, s1 9, s2 8, s3 7, s4 6",
			[]string{"The breaker shards: s0 is open: the next attempt may start in 10.0s.", "breaker shards: s0 open, next attempt in 10.0s, the longest open of 11", "breaker shards: s4 open, next attempt in 6.00s"}},
		{"hedges", func(r *report) []gauge { return r.Hedges }, func(g gauge) string { return number(g.Delay) },
			func(page *retrydebug.Recorder, keys *retry.PerKey[observed]) {
				retrydebug.ObservePerKey(page, "shards", as(keys, func(o *observed) *hedging { return &hedging{o.wait} }))
			}, "10 of 11: s0 10, s1 9, s2 8, s3 7, s4 6",
			[]string{"hedge shards: s0 after 10.0s, the latest of 11", "hedge shards: s4 after 6.00s"}},
		{"paces", func(r *report) []gauge { return r.Paces }, func(g gauge) string { return number(g.Rate) + "/" + number(g.Wait) },
			func(page *retrydebug.Recorder, keys *retry.PerKey[observed]) {
				retrydebug.ObservePerKey(page, "shards", as(keys, func(o *observed) *paced { return &paced{hedging{o.wait}, 5} }))
			}, "5/10 of 11: s0 5/10, s1 5/9, s2 5/8, s3 5/7, s4 5/6",
			[]string{"pace shards: s0 5.00 attempts/s, one that comes now waits 10.0s, the slowest of 11"}},
	} {
		var page retrydebug.Recorder
		keys := &retry.PerKey[observed]{New: func(key string) *observed {
			if key == "none" {
				return nil
			}
			n := int(key[1] - '0')
			return &observed{float64(n) / 10, 20 - n, 20, time.Duration(10-n) * time.Second}
		}}
		tt.named(&page, keys)
		r := read(t, &page)
		if g := tt.field(&r); len(g) != 1 || g[0].Name != "shards" || g[0].Parts != 0 || g[0].Worst != nil || g[0].Balance != nil {
			t.Errorf("%s without a key: %+v", tt.kind, g)
		}
		for _, n := range []int{7, 3, 9, 0, 5, 2, 8, 1, 4, 6} {
			keys.For(fmt.Sprintf("s%d\n", n))
		}
		keys.For("s9 as well")
		keys.For("none")
		r = read(t, &page)
		g := tt.field(&r)[0]
		got := fmt.Sprintf("%s of %d: ", tt.show(g), g.Parts)
		for i, part := range g.Worst {
			if i > 0 {
				got += ", "
			}
			got += strings.TrimSpace(part.Name) + " " + tt.show(part)
		}
		if got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.kind, got, tt.want)
		}
		words := parse(t, get(t, &page, "").Body).all("main")[0].words()
		for _, want := range tt.words {
			if !strings.Contains(words, want) {
				t.Errorf("%q is not in\n%s", want, words)
			}
		}
		if strings.Contains(words, "s5") {
			t.Errorf("%s: more than five parts in\n%s", tt.kind, words)
		}
	}
}

type balanced struct{ balance float64 }

func (b *balanced) Balance() float64 { return b.balance }

type limited struct{ inFlight, places int }

func (l *limited) InFlight() int { return l.inFlight }
func (l *limited) Places() int   { return l.places }

type opening struct{ wait time.Duration }

func (o *opening) Open() time.Duration { return o.wait }

type hedging struct{ wait time.Duration }

func (h *hedging) Wait() time.Duration { return h.wait }

type paced struct {
	hedging
	rate float64
}

func (p *paced) Rate() float64 { return p.rate }

// as returns a PerKey that has to what keys has at the same key.
func as[T any](keys *retry.PerKey[observed], to func(*observed) *T) *retry.PerKey[T] {
	converted := &retry.PerKey[T]{}
	made := keys.New
	converted.New = func(key string) *T {
		if o := made(key); o != nil {
			return to(o)
		}
		return nil
	}
	keys.New = func(key string) *observed { converted.For(key); return nil }
	return converted
}

func number(v *float64) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(*v)
}

// What the library itself has is recognized, and what is none of it is no accident.
func TestWhatObservePerKeyTakes(t *testing.T) {
	var page retrydebug.Recorder
	var budgets retry.PerKey[retry.EarnedBudget]
	var limits retry.PerKey[limit.Limit]
	var breakers retry.PerKey[breaker.Breaker]
	var hedges retry.PerKey[hedge.Hedge]
	var paces retry.PerKey[pace.Pace]
	retrydebug.ObservePerKey(&page, "a", &budgets)
	retrydebug.ObservePerKey(&page, "a", &limits)
	retrydebug.ObservePerKey(&page, "a", &breakers)
	retrydebug.ObservePerKey(&page, "a", &hedges)
	retrydebug.ObservePerKey(&page, "a", &paces)
	budgets.For("x")
	limits.For("x")
	breakers.For("x")
	hedges.For("x")
	paces.For("x")
	r := read(t, &page)
	for kind, g := range map[string][]gauge{"budgets": r.Budgets, "limits": r.Limits, "breakers": r.Breakers, "hedges": r.Hedges, "paces": r.Paces} {
		if len(g) != 1 || g[0].Parts != 1 || len(g[0].Worst) != 1 {
			t.Errorf("%s: %+v", kind, g)
		}
	}
	retrydebug.ObservePerKey[retry.EarnedBudget](&page, "a", nil)
	if r := read(t, &page); len(r.Budgets) != 0 || len(r.Limits) != 1 {
		t.Errorf("a nil PerKey did not remove its name: %+v", r.Budgets)
	}
	defer func() {
		if got, want := fmt.Sprint(recover()), "retrydebug: *retry.Policy is no budget, limit, breaker, gate, hedge or pace"; got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	retrydebug.ObservePerKey(&page, "a", new(retry.PerKey[retry.Policy]))
}

// A part whose method panics is counted, and is the last of all.
func TestPartsThatPanic(t *testing.T) {
	var page retrydebug.Recorder
	keys := retry.PerKey[fragile]{New: func(key string) *fragile { return &fragile{key == "bad"} }}
	retrydebug.ObservePerKey(&page, "a", &keys)
	keys.For("bad")
	if r := read(t, &page); r.Budgets[0].Parts != 1 || r.Budgets[0].Balance != nil {
		t.Errorf("%+v", r.Budgets[0])
	}
	keys.For("good")
	r := read(t, &page)
	if b := r.Budgets[0]; b.Parts != 2 || number(b.Balance) != "1" || len(b.Worst) != 2 || b.Worst[1].Name != "bad" || b.Worst[1].Balance != nil {
		t.Errorf("%+v", b)
	}
}

type fragile struct{ bad bool }

func (f *fragile) Balance() float64 {
	if f.bad {
		panic("bad")
	}
	return 1
}

// However many gauges have parts, a page shows no more of these than of gauges.
func TestPartsAreBounded(t *testing.T) {
	var page retrydebug.Recorder
	for i := range 300 {
		keys := &retry.PerKey[balanced]{}
		for j := range 10 {
			keys.For(fmt.Sprint(j))
		}
		retrydebug.ObservePerKey(&page, fmt.Sprint(i), keys)
	}
	r := read(t, &page)
	parts, least := 0, math.MaxInt
	for _, b := range r.Budgets {
		parts, least = parts+len(b.Worst), min(least, b.Parts)
	}
	if len(r.Budgets) != 256 || parts != 256 || least != 10 {
		t.Errorf("%d budgets with %d parts, the least of %d; want 256, 256 and 10", len(r.Budgets), parts, least)
	}
}
