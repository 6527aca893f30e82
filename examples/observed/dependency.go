package main

import (
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// flaky is the dependency: it fails the share of requests that failures returns.
func flaky(failures func() float64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pause(r, 5*time.Millisecond, 25*time.Millisecond)
		if rand.Float64() >= failures() {
			return // 200
		}
		switch rand.IntN(4) {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			reset(w)
		case 3:
			pause(r, 150*time.Millisecond, 450*time.Millisecond) // then 200, if the client still waits
		}
	}
}

// pause takes a random time, or until the client leaves.
func pause(r *http.Request, least, most time.Duration) {
	select {
	case <-time.After(least + rand.N(most-least)):
	case <-r.Context().Done():
	}
}

// reset breaks the connection off: to close with unsent data thrown away is a TCP
// reset, not an orderly end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}
