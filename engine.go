package retry

import "github.com/goretry/retry/internal/engine"

func init() {
	engine.InWait = func(err error) bool {
		e, ok := err.(*Error)
		return ok && e != nil && e.inWait
	}
	engine.Judge = func(policy any, err error) engine.Verdict {
		p := policy.(*Policy)
		v := p.judge(err)
		return engine.Verdict{Err: unmarked(err), Marked: v.marked, Class: uint8(v.class), Hint: v.hint, End: uint8(v.end)}
	}
}
