package main

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// server has 20 workers, and is slow for every hundredth request.
type server struct {
	http.Server
	url      string
	client   *http.Client
	requests atomic.Int64
	slowness atomic.Int64
}

func listen() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + l.Addr().String()}
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	s.slowness.Store(1)
	workers := make(chan struct{}, 20)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		takes := answer
		if s.requests.Add(1)%100 == 0 {
			takes = slow
		}
		workers <- struct{}{} // it serves those as well that have gone
		time.Sleep(takes * time.Duration(s.slowness.Load()))
		<-workers
		fmt.Fprint(w, "a page")
	})
	go func() { _ = s.Serve(l) }()
	return s, nil
}
