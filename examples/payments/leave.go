package main

import (
	"context"
	"net"
	"net/http"
	"time"
)

// A service that gets a signal to end first reports that it is not ready, and serves as before
// until health checks have noticed. Then it accepts nothing new, and finishes what is underway.
// A supervisor must have more patience than both of these together.
const (
	notice = 300 * time.Millisecond // in production: what the probes of a balancer take
	grace  = 4 * time.Second        // more than the longest request takes
)

// serve serves until ctx ends, and then until nothing is underway. Serve returns when
// Shutdown begins: a program that ends then cuts the requests for which Shutdown waits.
func serve(ctx context.Context, server *http.Server, listener net.Listener, leave func()) error {
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		leave()
		time.Sleep(notice)
		late, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		ended <- server.Shutdown(late)
	})
	err := server.Serve(listener)
	if stop() { // ctx has not ended: it is an error of the listener
		return err
	}
	return <-ended
}

// untilGrace returns a context that ends when ctx has ended for as long as grace.
func untilGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return work, cancel
}
