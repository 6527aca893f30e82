package failover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// Model is a model with a key.
type Model struct{ URL, Key, Name string }

type Completion struct{ Text string }

// request asks for a completion.
func (m Model) request(ctx context.Context, prompt string) (*http.Request, error) {
	body, err := json.Marshal(map[string]string{"model": m.Name, "prompt": prompt})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", m.URL, bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+m.Key)
	}
	return req, err
}

// models returns the models in the order of preference. Make them once.
func models(url, key1, key2 string) *failover.Set[Model] {
	target := func(name, model, key string, perMinute float64) *failover.Target[Model] {
		return &failover.Target[Model]{
			Name: name, Value: Model{url, key, model},
			Guards: []retry.Guard{&pace.Pace{Quota: perMinute, Per: time.Minute, Burst: 20}},
		}
	}
	return &failover.Set[Model]{
		Targets: []*failover.Target[Model]{
			target("large, key 1", "large", key1, 500), target("large, key 2", "large", key2, 500),
			target("small, key 1", "small", key1, 2000), target("small, key 2", "small", key2, 2000),
		},
		Elsewhere: func(err error) bool { return says(err, 400, "context_length_exceeded") },
		Broken: func(err error) bool {
			return says(err, http.StatusUnauthorized, "") || says(err, http.StatusNotFound, "") || says(err, http.StatusTooManyRequests, "insufficient_quota")
		},
	}
}

// says reports whether a server has answered with a status, and with a word in its body.
func says(err error, code int, word string) bool {
	e, ok := errors.AsType[*retryhttp.StatusError](err)
	return ok && e.Code == code && strings.Contains(string(e.Body), word)
}

var budget retry.EarnedBudget // shared by all calls to one provider

// policy is that of all completions.
var policy = retry.Policy{
	Name:           "complete",
	MaxAttempts:    6,
	AttemptTimeout: 20 * time.Second, // at most a third of what callers have
	MaxRetryAfter:  time.Minute,
	Budget:         &budget,
}

func complete(ctx context.Context, s *failover.Set[Model], prompt string) (Completion, error) {
	return failover.Do(ctx, policy, s, func(ctx context.Context, t *failover.Target[Model]) (Completion, error) {
		req, err := t.Value.request(retryhttp.Idempotent(ctx, true), prompt)
		if err != nil {
			return Completion{}, retry.Stop(err)
		}
		return retryhttp.Once[Completion](ctx, policy, http.DefaultClient, req)
	})
}

// stream returns a stream whose first event has come.
func stream(caller context.Context, s *failover.Set[Model], client *http.Client, prompt string) (*http.Response, error) {
	return failover.Do(caller, policy, s, func(ctx context.Context, t *failover.Target[Model]) (*http.Response, error) {
		req, err := t.Value.request(retryhttp.Idempotent(caller, true), prompt) // the stream lasts as long as the caller
		if err != nil {
			return nil, retry.Stop(err)
		}
		return retryhttp.Once[*http.Response](ctx, policy, client, req) // ctx ends with the attempt
	})
}

// Two models and two keys: calls go to the first that works. A key that is revoked rests, a prompt that is too long for
// a model goes to one that takes it, and a 429 sends the call elsewhere at once.
func Example() {
	server := httptest.NewServer(serveModels())
	defer server.Close()
	s := models(server.URL, "revoked", "good")

	for _, prompt := range []string{"hello", "hello again", "too long for large", "hello, when large is busy"} {
		answer, err := complete(context.Background(), s, prompt)
		fmt.Println(answer.Text, err)
	}
	fmt.Println(s.Targets[0].Resting() > 0)
	// Output:
	// large says hello <nil>
	// large says hello again <nil>
	// small says too long for large <nil>
	// small says hello, when large is busy <nil>
	// true
}

// A stream goes elsewhere until its first event is good.
func Example_stream() {
	server := httptest.NewServer(serveModels())
	defer server.Close()
	s := models(server.URL, "good", "good")
	client := &http.Client{Transport: &retryhttp.Transport{Check: retryhttp.FirstEvent(func(event, data string) error {
		if event == "error" {
			return errors.New(data)
		}
		return nil
	})}}
	resp, err := stream(context.Background(), s, client, "stream")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Printf("%q %v\n", text, err)
	// Output: "data: small says stream\n\n" <nil>
}

// serveModels is a provider of models.
func serveModels() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Model, Prompt string }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		large := asked.Model == "large"
		switch {
		case r.Header.Get("Authorization") == "Bearer revoked":
			http.Error(w, `{"error": "invalid_api_key"}`, http.StatusUnauthorized)
		case large && strings.HasPrefix(asked.Prompt, "too long"):
			http.Error(w, `{"error": "context_length_exceeded"}`, http.StatusBadRequest)
		case large && strings.HasSuffix(asked.Prompt, "busy"):
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusTooManyRequests)
		case asked.Prompt == "stream":
			w.Header().Set("Content-Type", "text/event-stream")
			if large {
				fmt.Fprint(w, "event: error\ndata: overloaded\n\n")
				return
			}
			fmt.Fprintf(w, "data: %s says %s\n\n", asked.Model, asked.Prompt)
		default:
			_ = json.NewEncoder(w).Encode(Completion{asked.Model + " says " + asked.Prompt})
		}
	})
}

// A health check may have a target rest, and end that.
func ExampleTarget_Hold() {
	eu, us := &failover.Target[string]{Name: "eu", Value: "https://eu.example"}, &failover.Target[string]{Name: "us", Value: "https://us.example"}
	s := &failover.Set[string]{Targets: []*failover.Target[string]{eu, us}}
	call := func() {
		url, err := failover.Do(context.Background(), retry.Policy{}, s, func(_ context.Context, t *failover.Target[string]) (string, error) { return t.Value, nil })
		fmt.Println(url, err)
	}
	eu.Hold(time.Hour)
	call()
	eu.Hold(0)
	call()
	// Output:
	// https://us.example <nil>
	// https://eu.example <nil>
}

// Name tells hooks at which target an attempt is made.
func ExampleName() {
	p := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}
	p.Hooks.AttemptDone = func(ctx context.Context, a retry.Attempt) { fmt.Println(failover.Name(ctx), a.Err) }
	s := &failover.Set[int]{Targets: []*failover.Target[int]{{Name: "one"}, {Name: "two"}}}
	_, _ = failover.Do(context.Background(), p, s, func(_ context.Context, t *failover.Target[int]) (string, error) {
		if t.Name == "one" {
			return "", errors.New("down")
		}
		return "", nil
	})
	// Output:
	// one one: down
	// two <nil>
}
