package harm

import "math"

// Chance is a function: the same seed, call, request and purpose give the same number, whatever
// else has happened. So with and without a guard a request meets the same luck.

type purpose uint64

const (
	took purpose = iota
	took2
	fate
	replica
	broke
	kind
	jitter
)

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// uniform returns a number in [0,1).
func uniform(key uint64, n int, p purpose) float64 {
	return float64(mix(mix(key^uint64(p)<<56)+uint64(n))>>11) / (1 << 53)
}

// exponential returns a number with the mean one.
func exponential(key uint64, n int, p purpose) float64 { return -math.Log(1 - uniform(key, n, p)) }

// normal is the Box-Muller transform.
func (r request) normal() float64 {
	return math.Sqrt(-2*math.Log(1-r.uniform(took))) * math.Cos(2*math.Pi*r.uniform(took2))
}
