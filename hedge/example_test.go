package hedge_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
)

// One Hedge for all calls of a kind. The zero value measures them; a fixed delay is
// for examples.
var greetings = hedge.Hedge{Delay: time.Millisecond}

// The first attempt hangs. The second one starts a millisecond later, at another
// replica, and its answer is the call's.
func Example() {
	replicas := []string{"replica-a", "replica-b"}
	policy := retry.Policy{Name: "fetch-greeting", MaxAttempts: 3}

	greeting, err := hedge.Do(context.Background(), policy, &greetings, func(ctx context.Context) (string, error) {
		replica := replicas[(hedge.Number(ctx)-1)%len(replicas)]
		return fetch(ctx, replica)
	})
	fmt.Println(greeting, err)
	// Output: hello from replica-b <nil>
}

// fetch hangs if it is asked for replica-a, until its context ends.
func fetch(ctx context.Context, replica string) (string, error) {
	if replica == "replica-a" {
		<-ctx.Done()
		return "", context.Cause(ctx) // hedge.ErrLost
	}
	return "hello from " + replica, nil
}

var (
	userPolicy = retry.Policy{
		Name:           "fetch-user",
		AttemptTimeout: time.Second, // for both copies together
		Budget:         &retry.EarnedBudget{},
	}
	userHedge hedge.Hedge // one for all calls of a kind to one dependency
)

func getUser(ctx context.Context) (string, error) {
	return hedge.Do(ctx, userPolicy, &userHedge, fetchUser)
}

// The zero Hedge measures the calls, and sends no hedge while they are quick.
func ExampleDo() {
	fmt.Println(getUser(context.Background()))
	// Output: ada <nil>
}

func fetchUser(context.Context) (string, error) { return "ada", nil }

// A value that needs its context takes it along, and ends it when it is closed.
func ExampleDoValue() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	}))
	defer server.Close()

	h := new(hedge.Hedge)
	policy := retry.Policy{Name: "fetch-greeting"}
	body, err := hedge.DoValue(context.Background(), policy, h, func(ctx context.Context) (io.ReadCloser, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return nil, retry.Stop(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		return resp.Body, nil // its status is not checked here
	}, hedge.Value[io.ReadCloser]{
		Hold: func(body io.ReadCloser, cancel context.CancelFunc) io.ReadCloser { return held{body, cancel} },
	})
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(body)
	body.Close()
	fmt.Println(string(text), err)
	// Output: hello <nil>
}

// held ends its attempt's context when it is closed.
type held struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (h held) Close() error {
	defer h.cancel()
	return h.ReadCloser.Close()
}

// Hedged is told of the calls that were slow.
func ExampleSummary() {
	h := &hedge.Hedge{
		Delay: time.Millisecond,
		Hedged: func(_ context.Context, s hedge.Summary) {
			fmt.Printf("%s: attempt %d of %d was the first, after %v\n", s.Name, s.Winner, s.Started, s.Delay)
		},
	}
	_, _ = hedge.Do(context.Background(), retry.Policy{Name: "fetch-greeting"}, h, func(ctx context.Context) (string, error) {
		return fetch(ctx, []string{"replica-a", "replica-b"}[hedge.Number(ctx)-1])
	})
	// Output: fetch-greeting: attempt 2 of 2 was the first, after 1ms
}

// Until it has seen a call, a Hedge waits for MaxDelay. Wait is for a gauge.
func ExampleHedge_Wait() {
	measured := hedge.Hedge{MaxDelay: time.Second}
	fixed := hedge.Hedge{Delay: 20 * time.Millisecond}
	off := hedge.Hedge{Delay: hedge.Never}
	fmt.Println(measured.Wait(), fixed.Wait(), off.Wait() == hedge.Never)
	// Output: 1s 20ms true
}

// A panic in a hedge reaches the caller as an error, with the stack of the hedge.
func ExampleDo_panic() {
	defer func() {
		text, stack, _ := strings.Cut(recover().(error).Error(), "\n\n")
		fmt.Println(text, strings.HasPrefix(stack, "goroutine"))
	}()
	h := &hedge.Hedge{Delay: time.Millisecond}
	_, _ = hedge.Do(context.Background(), retry.Policy{}, h, func(ctx context.Context) (string, error) {
		if hedge.Number(ctx) == 2 {
			panic("no such replica")
		}
		return fetch(ctx, "replica-a")
	})
	// Output: hedge: panic in a hedge: no such replica true
}
