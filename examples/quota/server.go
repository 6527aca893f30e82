package main

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	perSecond = 20
	answer    = 200 * time.Millisecond // how long the server takes
)

// server is a provider whose quota is a bucket of perSecond requests.
type server struct {
	http.Server
	url       string
	transport *http.Transport

	mu                  sync.Mutex
	left                float64 // requests that it takes now
	at                  time.Time
	requests, throttled int
}

func listen() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + l.Addr().String(), left: perSecond, at: time.Now()}
	s.transport = &http.Transport{MaxIdleConnsPerHost: callers}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !s.admit() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"__type": "ThrottlingException"}`) // as AWS says it
			return
		}
		time.Sleep(answer)
		fmt.Fprint(w, `{"QueueUrl": "hello"}`) // as SQS answers GetQueueUrl
	})
	go func() { _ = s.Serve(l) }()
	return s, nil
}

// admit counts a request, and reports whether it is within the quota.
func (s *server) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.left = min(perSecond, s.left+perSecond*now.Sub(s.at).Seconds())
	s.at = now
	s.requests++
	if s.left < 1 {
		s.throttled++
		return false
	}
	s.left--
	return true
}

func (s *server) counts() (requests, throttled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.throttled
}

// Close also closes the connections of the transport.
func (s *server) Close() {
	s.transport.CloseIdleConnections()
	_ = s.Server.Close()
}
