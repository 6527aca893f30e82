package loadlab

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

const ms = time.Millisecond

func fixed(d time.Duration) func(*request) time.Duration {
	return func(*request) time.Duration { return d }
}

func steady(r float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return r }
}

// mostly is a kind of call with this share: 1, or else 0.
func mostly(share float64) func(*rand.Rand) int {
	return func(r *rand.Rand) int {
		if r.Float64() < share {
			return 1
		}
		return 0
	}
}

// Calm returns worlds without an overload. Their servers have endless capacity: none of their
// answers would be better for fewer requests. Times are for four minutes, and an attempt has ten
// seconds, where nothing else is said.
func Calm() []World {
	var c calm
	c.steady()
	c.failures()
	c.spreads()
	c.changes()
	c.stops()
	c.replicas()
	c.callers()
	c.bursts()
	c.copies()
	return c
}

type calm []World

func (c *calm) add(name string, w World, f free) {
	w.Name = name
	if w.length == 0 {
		w.length = 4 * time.Minute
	}
	if w.timeout == nil {
		w.timeout = fixed(10 * time.Second)
	}
	w.server = func() server { return f }
	*c = append(*c, w)
}

// steady: answers take as long as ever.
func (c *calm) steady() {
	for _, took := range []time.Duration{ms, 50 * ms, 500 * ms, 2 * time.Second, 8 * time.Second, 50 * time.Second} {
		for _, rate := range []float64{.1, 5, 100, 1000} {
			w := World{rate: steady(rate)}
			switch {
			case took >= 8*time.Second && rate == 1000:
				continue
			case rate == 1000:
				w.length = 40 * time.Second
			case rate == .1:
				w.length = time.Hour
			}
			if took > 8*time.Second {
				w.timeout, w.deadline = fixed(0), fixed(5*time.Minute)
			}
			c.add(fmt.Sprintf("steady: %v at %v/s", took, rate), w, func(r *request) (outcome, time.Duration) {
				return ok, took + time.Duration(r.rand.ExpFloat64()*float64(took)/20)
			})
		}
	}
}

// failures: a share of the requests fails at random.
func (c *calm) failures() {
	for _, kind := range []string{"429", "503", "reset", "hang"} {
		for _, took := range []time.Duration{50 * ms, 2 * time.Second} {
			for _, rate := range []float64{5, 100} {
				for _, share := range []float64{.05, .33, .5} {
					c.add(fmt.Sprintf("%s: %.0f %% of %v at %v/s", kind, share*100, took, rate), World{rate: steady(rate)},
						func(r *request) (outcome, time.Duration) {
							if r.rand.Float64() >= share {
								return ok, took
							}
							switch kind {
							case "429":
								return throttled, took
							case "503":
								return failed, took
							case "reset":
								return failed, took / 20
							}
							return ok, -1
						})
				}
			}
		}
	}
}

// spreads: some answers take much longer than others.
func (c *calm) spreads() {
	for _, share := range []float64{.1, .6} {
		c.add(fmt.Sprintf("spread: 5ms, %.0f %% take 5s", share*100), World{rate: steady(50)}, func(r *request) (outcome, time.Duration) {
			if r.rand.Float64() < share {
				return ok, 5 * time.Second
			}
			return ok, 5 * ms
		})
	}
	for _, sigma := range []float64{1, 2} {
		for _, median := range []time.Duration{50 * ms, 500 * ms, time.Second, 2 * time.Second} {
			c.add(fmt.Sprintf("spread: lognormal %v, sigma %v, timeout 1s", median, sigma), World{rate: steady(50), timeout: fixed(time.Second)},
				func(r *request) (outcome, time.Duration) { return ok, r.lognormal(median, sigma) })
		}
	}
	c.add("spread: Pareto from 20ms, alpha 1, timeout 1s", World{rate: steady(100), timeout: fixed(time.Second)}, func(r *request) (outcome, time.Duration) {
		return ok, time.Duration(float64(20*ms) / max(r.rand.Float64(), 1e-6))
	})
}

// changes: answers become slower or quicker, for a reason that is not the load.
func (c *calm) changes() {
	for _, factor := range []float64{2, 10} {
		for _, from := range []time.Duration{50 * ms, 200 * ms} {
			for _, timeout := range []time.Duration{time.Second, 10 * time.Second} {
				for _, rate := range []float64{10, 200} {
					c.add(fmt.Sprintf("step: %v times %v for a minute, timeout %v, at %v/s", from, factor, timeout, rate), World{rate: steady(rate), timeout: fixed(timeout)},
						func(r *request) (outcome, time.Duration) {
							d := r.lognormal(from, .3)
							if (span{10 * time.Second, 70 * time.Second}).has(r.at) {
								d = time.Duration(float64(d) * factor)
							}
							return ok, d
						})
				}
			}
		}
	}
	for _, median := range []time.Duration{900 * ms, 1100 * ms, 1500 * ms} {
		for _, rate := range []float64{10, 200} {
			slower := func(name string, slow func(time.Duration) bool) {
				c.add(fmt.Sprintf("%s 100ms and %v, timeout 1s, at %v/s", name, median, rate), World{rate: steady(rate), timeout: fixed(time.Second)},
					func(r *request) (outcome, time.Duration) {
						if slow(r.at) {
							return ok, r.lognormal(median, .4)
						}
						return ok, r.lognormal(100*ms, .4)
					})
			}
			slower("step for good:", func(t time.Duration) bool { return t >= 10*time.Second })
			slower("each 20s in turn:", func(t time.Duration) bool { return t/(20*time.Second)%2 == 1 })
		}
	}
	c.add("step for good: 1s and 10s, timeout 10s", World{rate: steady(50)}, func(r *request) (outcome, time.Duration) {
		if r.at >= 10*time.Second {
			return ok, r.lognormal(10*time.Second, .3)
		}
		return ok, r.lognormal(time.Second, .3)
	})
	c.add("slow at first: 3s fall to 50ms in 20s", World{rate: steady(100)}, func(r *request) (outcome, time.Duration) {
		return ok, 50*ms + time.Duration(float64(3*time.Second)*math.Exp(-r.at.Seconds()/5))
	})
	c.add("slow at first: nothing is answered for 5s, timeout 1s", World{rate: steady(100), timeout: fixed(time.Second)}, func(r *request) (outcome, time.Duration) {
		if r.at < 5*time.Second {
			return ok, -1
		}
		return ok, 50 * ms
	})
	wave := func(t time.Duration) float64 { return -math.Cos(t.Seconds() / 240 * 2 * math.Pi) }
	c.add("day and night: 100ms to 1s and back", World{rate: steady(100), timeout: fixed(2 * time.Second)}, func(r *request) (outcome, time.Duration) {
		return ok, r.lognormal(time.Duration(float64(316*ms)*math.Pow(10, .5*wave(r.at))), .3)
	})
	c.add("day and night: 5 to 500/s and back", World{rate: func(t time.Duration) float64 { return 50 * math.Pow(10, wave(t)) }, timeout: fixed(2 * time.Second)},
		func(r *request) (outcome, time.Duration) { return ok, r.lognormal(100*ms, .3) })
}

// stops: the server answers nothing for a while, and has all its capacity then.
func (c *calm) stops() {
	for _, stop := range []time.Duration{time.Second, 3 * time.Second, 20 * time.Second, time.Minute} {
		for _, took := range []time.Duration{50 * ms, 500 * ms, 2 * time.Second} {
			for _, rate := range []float64{10, 100} {
				timeout := time.Second
				if took == 2*time.Second {
					timeout = 10 * time.Second
				}
				c.add(fmt.Sprintf("stop: %v, answers take %v, timeout %v, at %v/s", stop, took, timeout, rate), World{rate: steady(rate), timeout: fixed(timeout)},
					func(r *request) (outcome, time.Duration) {
						if (span{20 * time.Second, 20*time.Second + stop}).has(r.at) {
							return ok, -1
						}
						return ok, r.lognormal(took, .2)
					})
			}
		}
	}
	c.add("stop: 3s each 30s, and then all is answered, timeout 1s", World{rate: steady(100), timeout: fixed(time.Second)}, func(r *request) (outcome, time.Duration) {
		if in := r.at % (30 * time.Second); in > 27*time.Second {
			return ok, 30*time.Second - in + 50*ms
		}
		return ok, 50 * ms
	})
}

// replicas: one of them is sick after ten seconds.
func (c *calm) replicas() {
	for _, n := range []int{2, 3, 10} {
		for _, timeout := range []time.Duration{time.Second, 10 * time.Second} {
			for _, sick := range []string{"hangs", "takes 20 times as long"} {
				c.add(fmt.Sprintf("one of %d replicas %s, timeout %v", n, sick, timeout), World{rate: steady(100), timeout: fixed(timeout)}, func(r *request) (outcome, time.Duration) {
					d := r.lognormal(100*ms, .3)
					if r.at > 10*time.Second && r.rand.IntN(n) == 0 {
						if sick == "hangs" {
							return ok, -1
						}
						d *= 20
					}
					return ok, d
				})
			}
		}
	}
}

// callers: they have little time, or are of two kinds.
func (c *calm) callers() {
	short := func(r *request) time.Duration {
		if r.kind == 1 {
			return 100 * ms
		}
		return time.Second
	}
	for _, share := range []float64{.5, .9, 1} {
		c.add(fmt.Sprintf("callers: %.0f %% have 100ms, answers take 80 to 300", share*100), World{rate: steady(100), kind: mostly(share), deadline: short, timeout: fixed(0)},
			func(r *request) (outcome, time.Duration) {
				return ok, 80*ms + time.Duration(r.rand.Float64()*float64(220*ms))
			})
	}
	c.add("callers: all have 100ms for 20s, and then a second", World{rate: steady(100), timeout: fixed(0), deadline: func(r *request) time.Duration {
		if r.at < 20*time.Second {
			return 100 * ms
		}
		return time.Second
	}}, func(r *request) (outcome, time.Duration) {
		return ok, 200*ms + time.Duration(r.rand.Float64()*float64(100*ms))
	})
	two := func(r *request) (outcome, time.Duration) {
		if r.kind == 1 {
			return ok, 20 * time.Second
		}
		return ok, 5 * ms
	}
	for _, share := range []float64{.1, .5, .9} {
		c.add(fmt.Sprintf("callers: of 5ms, and %.0f %% of 20s", share*100), World{rate: steady(50), kind: mostly(share), timeout: fixed(30 * time.Second)}, two)
	}
	c.add("callers: of 5ms, and after a minute 90 % of 20s who have 15", World{rate: steady(50), timeout: fixed(15 * time.Second)}, func(r *request) (outcome, time.Duration) {
		if r.at > time.Minute && r.rand.Float64() < .9 {
			return ok, 20 * time.Second
		}
		return ok, 5 * ms
	})
	c.add("callers: streams of two minutes", World{rate: steady(20), length: 6 * time.Minute, timeout: fixed(0), deadline: fixed(10 * time.Minute)},
		func(r *request) (outcome, time.Duration) {
			return ok, time.Duration(r.rand.ExpFloat64() * float64(2*time.Minute))
		})
	c.add("callers: streams of a minute without a timeout, and calls of 20ms", World{rate: steady(50), kind: mostly(.5), deadline: fixed(10 * time.Minute), timeout: func(r *request) time.Duration {
		if r.kind == 1 {
			return 0
		}
		return time.Second
	}}, func(r *request) (outcome, time.Duration) {
		if r.kind == 1 {
			return ok, time.Minute
		}
		return ok, 20 * ms
	})
}

// bursts: many calls come at once.
func (c *calm) bursts() {
	for _, took := range []time.Duration{50 * ms, 2 * time.Second} {
		for _, every := range []time.Duration{time.Hour, 10 * time.Second} {
			w := World{burst: 200, every: every}
			if every == time.Hour {
				w.length = 10 * time.Hour
			}
			c.add(fmt.Sprintf("burst: 200 calls each %v, of %v", every, took), w, func(r *request) (outcome, time.Duration) { return ok, r.lognormal(took, .3) })
		}
	}
	c.add("burst: 200 calls each 10s, each sixth in a stop of 3s, timeout 1s", World{burst: 200, every: 10 * time.Second, timeout: fixed(time.Second)},
		func(r *request) (outcome, time.Duration) {
			if r.at%time.Minute < 3*time.Second {
				return ok, -1
			}
			return ok, r.lognormal(50*ms, .3)
		})
	c.add("burst: an hour of nothing, then 200/s", World{length: time.Hour + time.Minute, rate: func(t time.Duration) float64 {
		switch {
		case t < 20*time.Second:
			return 50
		case t < time.Hour:
			return .01
		}
		return 200
	}}, func(r *request) (outcome, time.Duration) { return ok, r.lognormal(300*ms, .3) })
}

// copies: of attempts, or none at all after the first.
func (c *calm) copies() {
	c.add("hedge: after 100ms, 5 % take 2s", World{rate: steady(100), hedge: 100 * ms}, func(r *request) (outcome, time.Duration) {
		if r.rand.Float64() < .05 {
			return ok, 2 * time.Second
		}
		return ok, r.lognormal(40*ms, .3)
	})
	c.add("hedge: after 100ms, a third hang, timeout 1s", World{rate: steady(100), hedge: 100 * ms, timeout: fixed(time.Second)}, func(r *request) (outcome, time.Duration) {
		if r.rand.Float64() < .33 {
			return ok, -1
		}
		return ok, r.lognormal(40*ms, .3)
	})
	once := func(name string, f free) {
		c.add("one attempt: "+name+", timeout 1s", World{attempts: 1, rate: steady(100), timeout: fixed(time.Second)}, f)
	}
	once("a stop of 3s", func(r *request) (outcome, time.Duration) {
		if (span{20 * time.Second, 23 * time.Second}).has(r.at) {
			return ok, -1
		}
		return ok, r.lognormal(100*ms, .3)
	})
	for _, to := range []struct {
		median time.Duration
		sigma  float64
	}{{time.Second, .3}, {1100 * ms, .4}} {
		once(fmt.Sprintf("100ms, and %v after 10s", to.median), func(r *request) (outcome, time.Duration) {
			if r.at > 10*time.Second {
				return ok, r.lognormal(to.median, to.sigma)
			}
			return ok, r.lognormal(100*ms, .3)
		})
	}
}
