package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry/retryhttp"
)

func TestDetach(t *testing.T) {
	type key struct{}
	for name, limit := range map[string]time.Duration{"with a deadline": time.Minute, "without": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, hangUp := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
				if limit > 0 {
					caller, hangUp = context.WithTimeout(caller, limit)
				}
				ctx, cancel := retryhttp.Detach(caller)
				hangUp()
				synctest.Wait()
				if ctx.Err() != nil || ctx.Value(key{}) != "value" {
					t.Errorf("after the caller has left: %v, value %v", ctx.Err(), ctx.Value(key{}))
				}
				if deadline, ok := ctx.Deadline(); ok != (limit > 0) || ok && time.Until(deadline) != limit {
					t.Errorf("deadline in %v, %v; want %v", time.Until(deadline), ok, limit)
				}
				time.Sleep(2 * time.Minute)
				if limit > 0 != errors.Is(ctx.Err(), context.DeadlineExceeded) {
					t.Errorf("after 2m: %v", ctx.Err())
				}
				if cancel(); ctx.Err() == nil {
					t.Error("cancel does not end it")
				}
			})
		})
	}
}

// The caller hangs up while the handler commits.
func ExampleDetach() {
	committing, committed := make(chan struct{}), make(chan error)
	commit := func(ctx context.Context) error { // as a driver does: an end of ctx cuts it off
		close(committing)
		select {
		case <-time.After(50 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return fmt.Errorf("outcome unknown: %w", ctx.Err())
		}
	}
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := retryhttp.Detach(r.Context())
		defer cancel()
		committed <- commit(ctx)
	})
	server := httptest.NewServer(retryhttp.DeadlineHandler(handler, "X-Timeout-Ms", time.Minute))
	defer server.Close()

	ctx, hangUp := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
	if err != nil {
		panic(err)
	}
	go func() {
		<-committing
		hangUp()
	}()
	_, err = http.DefaultClient.Do(req)
	fmt.Println("caller:", errors.Is(err, context.Canceled))
	fmt.Println("commit:", <-committed)
	// Output:
	// caller: true
	// commit: <nil>
}
