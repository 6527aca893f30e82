package loopctx

import (
	"context"
	"net/http"
	"time"
)

// In tests a wait makes a server slow.
func slow(w http.ResponseWriter, r *http.Request) {
	for range 5 {
		time.Sleep(time.Second)
		_, _ = w.Write(nil)
	}
}

func retries(ctx context.Context) {
	for try(ctx) != nil {
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}
