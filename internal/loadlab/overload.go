package loadlab

import (
	"fmt"
	"strings"
	"time"
)

// Overloads returns worlds in which a server has more to do than it can, all the time or for a
// while. Ten workers, or processors, take 50 ms for a request, so it can do 200 per second; callers
// have a second for an attempt, ten for a call, and three attempts. They run for a minute, of which
// the second half is Figures.Late.
func Overloads() (all []World) {
	for _, processes := range []int{1, 30} {
		for _, budget := range []bool{false, true} {
			add := func(order, name string, load float64, hang, slow span) {
				all = append(all, World{
					Name:      fmt.Sprintf("%s: %.0f %%%s, %d processes, budget %v", order, load*100, name, processes, budget),
					processes: processes, budget: budget, rate: steady(200 * load), server: crowd(10, 50*ms, order, hang, slow),
					attempts: 3, timeout: fixed(time.Second), deadline: fixed(10 * time.Second), length: time.Minute, from: 30 * time.Second,
				})
			}
			for _, order := range []string{"fifo", "lifo", "random", "sharing", "fifo 600", "fifo 50"} {
				for _, load := range []float64{1.1, 1.5, 3} {
					add(order, "", load, span{}, span{})
				}
			}
			for _, order := range []string{"fifo", "random", "sharing"} {
				for _, hang := range []time.Duration{3 * time.Second, 10 * time.Second} {
					add(order, fmt.Sprintf(", hangs %v", hang), .9, span{20 * time.Second, 20*time.Second + hang}, span{})
				}
				add(order, ", three times slower after 20s", .6, span{}, span{20 * time.Second, time.Hour})
				add(order, ", three times slower for 20s", .6, span{}, span{20 * time.Second, 40 * time.Second})
			}
		}
	}
	return all
}

// Others returns more overloads, with other numbers. Forty workers, or processors, take 400 ms, so the server can do 100 per second; callers have three seconds for an
// attempt, half a minute for a call, three attempts and a budget. They run for two minutes, of which
// the second is Figures.Late.
func Others() (all []World) {
	for _, processes := range []int{1, 4, 50} {
		for _, order := range []string{"fifo", "random", "sharing"} {
			add := func(name string, load float64, hang, slow span) {
				all = append(all, World{
					Name:      fmt.Sprintf("%s: %.0f %%%s, %d processes", order, load*100, name, processes),
					processes: processes, budget: true, rate: steady(100 * load), server: crowd(40, 400*ms, order, hang, slow),
					attempts: 3, timeout: fixed(3 * time.Second), deadline: fixed(30 * time.Second), length: 2 * time.Minute, from: time.Minute,
				})
			}
			add("", 1.3, span{}, span{})
			add("", 2, span{}, span{})
			add(", hangs 15s", .85, span{45 * time.Second, time.Minute}, span{})
			add(", three times slower after 40s", .5, span{}, span{40 * time.Second, time.Hour})
		}
	}
	return all
}

// crowd returns a server of so many workers, whose queue has an order and perhaps a bound, or of so
// many processors.
func crowd(n int, mean time.Duration, order string, hang, slow span) func() server {
	if order == "sharing" {
		return func() server { return &shared{processors: n, mean: mean, hang: hang, slow: slow} }
	}
	order, bound, _ := strings.Cut(order, " ")
	most := 0
	_, _ = fmt.Sscan(bound, &most)
	return func() server {
		return &queued{workers: n, mean: mean, order: order, bound: most, hang: hang, slow: slow}
	}
}
