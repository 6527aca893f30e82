package guards

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/goretry/retry"
)

// Quota is the quota of a fleet, which another process counts: each POST takes one call, or
// gets a 429 that says when to ask again.
type Quota struct {
	Client *http.Client
	URL    string
}

var errNoHedges = errors.New("quota: not for hedges")

func (q *Quota) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	if e.Hedge { // which must not wait for others
		return retry.Pass{}, errNoHedges
	}
	ctx, cancel := e.Clock.WithTimeoutCause(ctx, min(e.Patience, time.Second), nil)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.URL, nil)
	if err != nil {
		return retry.Pass{}, retry.Stop(err)
	}
	resp, err := q.Client.Do(req)
	if err != nil {
		return retry.Pass{}, err // nothing was sent but the question: the run asks again after its backoff
	}
	defer resp.Body.Close()
	switch seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); {
	case resp.StatusCode == http.StatusOK:
		return retry.Pass{}, nil
	case resp.StatusCode == http.StatusTooManyRequests && err == nil && seconds > 0:
		return retry.Pass{Wait: time.Duration(seconds) * time.Second, Again: true}, nil
	}
	return retry.Pass{}, fmt.Errorf("quota: %s", resp.Status)
}

func (q *Quota) Leave(retry.Pass, retry.Exit) {} // what an attempt took is gone, even if it was not made
