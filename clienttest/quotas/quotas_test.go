package quotas_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clienttest/internal/pipes"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// An sdk makes a completion, and returns its text. It makes so many retries of its own.
type sdk struct {
	name     string
	complete func(ctx context.Context, hc *http.Client, retries int) (string, error)
	stream   func(ctx context.Context, hc *http.Client, retries int) (string, error)
	model    model
}

// A model is what a server sends: a whole answer, a stream, and a stream that is an error.
type model struct{ answer, events, failure string }

const hello = "Hello, world"

var sdks = []sdk{
	{
		name: "openai-go",
		complete: func(ctx context.Context, hc *http.Client, retries int) (string, error) {
			c := openaiClient(hc, retries)
			answer, err := c.Chat.Completions.New(ctx, question)
			if err != nil {
				return "", err
			}
			return answer.Choices[0].Message.Content, nil
		},
		stream: func(ctx context.Context, hc *http.Client, retries int) (text string, _ error) {
			c := openaiClient(hc, retries)
			stream := c.Chat.Completions.NewStreaming(ctx, question)
			defer stream.Close()
			for stream.Next() {
				text += stream.Current().Choices[0].Delta.Content
			}
			return text, stream.Err()
		},
		model: model{
			answer:  `{"id": "x", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello, world"}}]}`,
			events:  "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"Hello, \"}}]}\n\ndata: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"world\"}}]}\n\ndata: [DONE]\n\n",
			failure: "data: {\"error\": {\"type\": \"server_error\", \"message\": \"overloaded\"}}\n\n",
		},
	},
	{
		name: "anthropic-sdk-go",
		complete: func(ctx context.Context, hc *http.Client, retries int) (string, error) {
			c := anthropicClient(hc, retries)
			answer, err := c.Messages.New(ctx, message)
			if err != nil {
				return "", err
			}
			return answer.Content[0].Text, nil
		},
		stream: func(ctx context.Context, hc *http.Client, retries int) (text string, _ error) {
			c := anthropicClient(hc, retries)
			stream := c.Messages.NewStreaming(ctx, message)
			defer stream.Close()
			for stream.Next() {
				text += stream.Current().Delta.Text
			}
			return text, stream.Err()
		},
		model: model{
			answer: `{"id": "x", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello, world"}]}`,
			events: "event: message_start\ndata: {\"type\": \"message_start\", \"message\": {\"id\": \"x\", \"type\": \"message\", \"role\": \"assistant\", \"content\": []}}\n\n" +
				"event: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"text_delta\", \"text\": \"Hello, \"}}\n\n" +
				"event: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"text_delta\", \"text\": \"world\"}}\n\n" +
				"event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n",
			failure: "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n",
		},
	},
}

var (
	question = openai.ChatCompletionNewParams{Model: "x", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Greet me.")}}
	message  = anthropic.MessageNewParams{Model: "x", MaxTokens: 16, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Greet me."))}}
)

func openaiClient(hc *http.Client, retries int) openai.Client {
	return openai.NewClient(openaioption.WithBaseURL("http://model.example"), openaioption.WithHTTPClient(hc), openaioption.WithMaxRetries(retries), openaioption.WithAPIKey("x"))
}

func anthropicClient(hc *http.Client, retries int) anthropic.Client {
	return anthropic.NewClient(anthropicoption.WithBaseURL("http://model.example"), anthropicoption.WithHTTPClient(hc), anthropicoption.WithMaxRetries(retries), anthropicoption.WithAPIKey("x"))
}

// overloaded reports a stream that begins with an error.
func overloaded(event, data string) error {
	if event == "error" || strings.HasPrefix(data, `{"error"`) {
		return errors.New("the stream begins with an error")
	}
	return nil
}

const (
	callers = 300
	each    = 3  // calls of a caller, one after the other
	quota   = 10 // requests per second
	burst   = 20
	flawed  = 25 // one of so many streams begins with an error
)

// provider is a server with a quota. Its answers take 1 to 3 seconds.
type provider struct {
	model

	mu        sync.Mutex
	level     float64 // requests that it takes now
	at        time.Time
	admitted  int
	throttled int // requests that were answered with 429
	failures  int // streams that began with an error
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	n, wait := p.admit()
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"type": "error", "error": {"type": "rate_limit_error", "message": "quota"}}`)
		return
	}
	time.Sleep(time.Second + time.Duration(n%21)*100*time.Millisecond)
	if !strings.Contains(string(body), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, p.answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	if n%flawed == 0 {
		p.mu.Lock()
		p.failures++
		p.mu.Unlock()
		fmt.Fprint(w, p.failure)
		return
	}
	fmt.Fprint(w, p.events)
}

// admit counts a request, and returns how long until the quota has room for it.
func (p *provider) admit() (n int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.at.IsZero() {
		p.level, p.at = burst, now
	}
	p.level = min(burst, p.level+now.Sub(p.at).Seconds()*quota)
	p.at = now
	if p.level < 1 {
		p.throttled++
		return 0, time.Duration((1 - p.level) / quota * float64(time.Second))
	}
	p.level--
	p.admitted++
	return p.admitted, 0
}

// result is what became of the calls, and what the server saw.
type result struct {
	failed, admitted, throttled, failures int
	took                                  time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("%3d of %d calls failed, %4d requests, %4d of them answered 429, %2d streams began with an error, in %v",
		r.failed, callers*each, r.admitted+r.throttled, r.throttled, r.failures, r.took.Round(time.Second))
}

// run makes the calls of all callers, who come within a second.
func run(t *testing.T, m model, transport *retryhttp.Transport, complete func(context.Context, *http.Client) (string, error)) (r result) {
	synctest.Test(t, func(t *testing.T) {
		p, network := &provider{model: m}, pipes.New()
		server := &http.Server{Handler: p}
		done := make(chan struct{})
		go func() { defer close(done); _ = server.Serve(network) }()
		base := &http.Transport{DialContext: network.Dial}
		hc := &http.Client{Transport: base}
		if transport != nil {
			transport.Base = base
			hc.Transport = transport
		}
		ctx := retryhttp.Idempotent(t.Context(), true)
		begin := time.Now()
		var wg sync.WaitGroup
		var failed atomic.Int64
		for i := range callers {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second / callers)
				for range each {
					text, err := complete(ctx, hc)
					if err == nil && text != hello {
						t.Errorf("the text is %q", text)
					}
					if err != nil {
						failed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		r.failed, r.took = int(failed.Load()), time.Since(begin)
		r.admitted, r.throttled, r.failures = p.admitted, p.throttled, p.failures
		base.CloseIdleConnections()
		server.Close()
		<-done
	})
	return r
}

// documented is the Transport of docs/llm.md, without its pace.
func documented() *retryhttp.Transport {
	return &retryhttp.Transport{
		Check: retryhttp.FirstEvent(overloaded),
		Policy: retry.Policy{
			MaxAttempts:    5,
			AttemptTimeout: 30 * time.Second,
			MaxRetryAfter:  time.Minute,
			Budget:         &retry.EarnedBudget{},
		},
	}
}

// Three hundred goroutines make calls that take the quota a minute and a half.
// With the client's own retries, and with a policy alone, most calls fail. With a pace that was told the quota
// next to none does, no request is answered 429, and the quota is used. Streams that
// begin with an error are requested again.
func TestQuotas(t *testing.T) {
	type call = func(ctx context.Context, hc *http.Client, retries int) (string, error)
	for _, s := range sdks {
		for _, c := range []struct {
			name    string
			make    call
			streams bool
		}{{"complete", s.complete, false}, {"stream", s.stream, true}} {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				without := func(ctx context.Context, hc *http.Client) (string, error) { return c.make(ctx, hc, 0) }
				own := run(t, s.model, nil, func(ctx context.Context, hc *http.Client) (string, error) { return c.make(ctx, hc, 2) })
				policy := run(t, s.model, documented(), without)
				transport := documented()
				transport.Policy.Guards = []retry.Guard{&pace.Pace{Quota: quota, Burst: burst}}
				paced := run(t, s.model, transport, without)
				t.Logf("\nits own retries: %v\nthe policy:      %v\nwith the pace:   %v", own, policy, paced)

				const calls = callers * each
				if own.failed < calls/2 || policy.failed < calls/2 {
					t.Error("most calls should fail without a pace: this server is no test of one")
				}
				if paced.failed > calls/100 {
					t.Errorf("with the pace %d of %d calls failed", paced.failed, calls)
				}
				if paced.throttled > 0 {
					t.Errorf("with the pace %d requests were answered 429", paced.throttled)
				}
				if ideal := time.Duration(paced.admitted-burst) * time.Second / quota; paced.took > ideal+ideal/5 {
					t.Errorf("the calls took %v, the quota needs %v", paced.took, ideal)
				}
				if c.streams && paced.failures < calls/flawed {
					t.Errorf("only %d streams began with an error: this server is no test of FirstEvent", paced.failures)
				}
			})
		}
	}
}
