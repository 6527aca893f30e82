package retry

import "github.com/goretry/retry/internal/engine"

func init() {
	engine.Judge = func(policy any, err error) engine.Verdict {
		p := policy.(*Policy)
		class, hint, marked := p.verdict(err)
		return engine.Verdict{
			Err: unmarked(err), Marked: marked, Class: uint8(class), Hint: hint, End: uint8(p.ends(class, hint)),
		}
	}
}
