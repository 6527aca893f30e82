package main

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

type hanging struct{}

func (hanging) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context()) // as net/http does
}

func TestFirstHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := users
		policy.Budget = &retry.EarnedBudget{} // as in a server, but not shared
		start := time.Now()
		_, err := load(t.Context(), policy, &http.Client{Transport: hanging{}}, "http://server/ada")
		e, ok := errors.AsType[*retry.Error](err)
		if !ok || e.Reason != retry.ReasonBudget {
			t.Errorf("got %v, want the reason budget", err)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("it took %v, want one attempt of 2s", took)
		}
	})
}
