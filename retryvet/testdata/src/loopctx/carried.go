package loopctx

import (
	"context"
	"net/http"
	"testing"
	"time"
)

func handler(w http.ResponseWriter, r *http.Request) {
	for {
		if err := try(context.Background()); err == nil {
			return
		}
		time.Sleep(time.Second) // want `this wait goes on after r.Context\(\) has ended: let retry.Run or Policy.Attempts wait, or select on r.Context\(\).Done\(\) as well`
	}
}

type transport struct{ base http.RoundTripper }

func (t transport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	for range 3 {
		if resp, err = t.base.RoundTrip(req); err == nil {
			return resp, nil
		}
		<-time.After(time.Second) // want `this wait goes on after req.Context\(\) has ended`
	}
	return nil, err
}

type stream interface {
	Context() context.Context
	Send(string) error
}

func streams(s stream) error {
	for {
		err := s.Send("")
		if err == nil {
			return nil
		}
		time.Sleep(time.Second) // want `this wait goes on after s.Context\(\) has ended`
	}
}

func both(ctx context.Context, r *http.Request) {
	for {
		if try(ctx) == nil {
			return
		}
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

type callContext interface {
	context.Context
	Caller() string
}

func wider(c callContext) {
	for {
		if try(c) == nil {
			return
		}
		time.Sleep(time.Second) // want `this wait goes on after c has ended`
	}
}

func inHandler(w http.ResponseWriter, r *http.Request) {
	each := func() {
		for try(context.Background()) != nil {
			time.Sleep(time.Second) // want `this wait goes on after r.Context\(\) has ended`
		}
	}
	each()
}

// What a handler starts may outlive its request, whose context ends when the handler
// returns.
func starts(w http.ResponseWriter, r *http.Request) {
	go func() {
		for try(context.Background()) != nil {
			time.Sleep(time.Second)
		}
	}()
}

func serves(mux *http.ServeMux) {
	go func() {
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			for try(context.Background()) != nil {
				time.Sleep(time.Second) // want `this wait goes on after r.Context\(\) has ended`
			}
		})
	}()
}

func rightRequest(w http.ResponseWriter, r *http.Request) {
	for try(r.Context()) != nil {
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return
		}
	}
}

// The context of a test ends after the test.
func helper(t *testing.T) {
	for try(t.Context()) != nil {
		time.Sleep(time.Second)
	}
}

type suite struct{ *testing.T }

func inSuite(s suite) {
	for try(s.Context()) != nil {
		time.Sleep(time.Second)
	}
}

// These have something else that is named Context.

type named struct{ Context string }

type takes struct{}

func (takes) Context(int) context.Context { return nil }

func notCarried(n named, t takes, unnamed, _ *http.Response, _ *http.Request) {
	for try(context.Background()) != nil {
		time.Sleep(time.Second)
	}
}
