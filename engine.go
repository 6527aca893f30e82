package retry

import "github.com/goretry/retry/internal/engine"

func init() {
	engine.InWait = func(err error) bool {
		e, ok := err.(*Error)
		return ok && e != nil && e.InWait
	}
	engine.Judge = func(policy any, err error) engine.Verdict {
		p := policy.(*Policy)
		v := p.judge(err, false)
		return engine.Verdict{Err: v.Err, Marked: v.Marked, Class: uint8(v.Class), Hint: v.Hint, End: uint8(v.End)}
	}
}
