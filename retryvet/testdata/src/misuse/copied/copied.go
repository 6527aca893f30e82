package copied

import (
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrydebug"
)

var slow hedge.Hedge
var places = limit.Limit{Max: 5}
var model pace.Pace
var earned retry.EarnedBudget
var recorder retrydebug.Recorder
var hosts retry.PerKey[limit.Limit] // want `these Limits limit nothing`

var server limit.Adaptive

func state() {
	h := slow   // want `this assignment copies a hedge.Hedge`
	l := places // want `this assignment copies a limit.Limit`
	a := server // want `this assignment copies a limit.Adaptive`
	_, _, _ = &h, &l, &a
	r := model    // want `this assignment copies a pace.Pace`
	each := hosts // want `this assignment copies a retry.PerKey\[limit.Limit\]`
	_, _ = &r, &each
	b := earned // want `this assignment copies a retry.EarnedBudget`
	t := budget.Token{}
	u := t          // want `this assignment copies a budget.Token`
	rec := recorder // want `this assignment copies a retrydebug.Recorder`
	_, _, _, _ = &b, &t, &u, &rec
	e := retry.Exponential{}
	f := e
	_ = f
	p := &slow
	_ = p.Wait()
}

type job struct{ loop retry.Loop }

func use(retry.Loop) {}

func wrong(p retry.Policy, jobs []job, loops []retry.Loop) retry.Loop {
	loop := *p.Start(time.Now()) // want `this assignment copies a retry.Loop`
	again := loop                // want `this assignment copies a retry.Loop`
	_, _ = again.Next(time.Now(), nil)
	use(loop)                 // want `this call copies`
	_ = job{loop: loop}       // want `this literal copies`
	for _, l := range loops { // want `this range copies`
		_, _ = l.Next(time.Now(), nil)
	}
	var third = *p.Start(time.Now()) // want `this declaration copies`
	_, _ = third.Next(time.Now(), nil)
	return jobs[0].loop // want `this return copies`
}

func right(p retry.Policy, loops []retry.Loop) *retry.Loop {
	loop := p.Start(time.Now())
	pointer := loop
	_, _ = pointer.Next(time.Now(), nil)
	for i := range loops {
		_, _ = loops[i].Next(time.Now(), nil)
	}
	loop = p.Start(time.Now())
	return loop
}
