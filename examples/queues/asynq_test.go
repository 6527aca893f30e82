package queues_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/queues"
	"github.com/hibiken/asynq"
)

// runs notes when messages are handled, and what their handlers return.
type runs struct {
	mu   sync.Mutex
	at   map[string][]time.Time
	dead []string
	more chan struct{}
}

func newRuns() *runs { return &runs{at: map[string][]time.Time{}, more: make(chan struct{}, 1000)} }

// handle is the handler of the tests on servers: what a message is called, it does.
func (r *runs) handle(what string) error {
	r.mu.Lock()
	r.at[what] = append(r.at[what], time.Now())
	n := len(r.at[what])
	r.mu.Unlock()
	r.more <- struct{}{}
	switch {
	case what == "hint" && n == 1:
		return retry.After(errors.New("busy"), 2*time.Second)
	case what == "not yet" && n <= 3:
		return retry.After(retry.ErrRejected, time.Second)
	case what == "malformed":
		_, err := strconv.Atoi(what)
		return err
	case strings.HasPrefix(what, "down"):
		return errDown
	case what == "panics":
		panic("of the handler")
	}
	return nil
}

func (r *runs) died(what string, reason retry.Reason) {
	r.mu.Lock()
	r.dead = append(r.dead, what+": "+reason.String())
	r.mu.Unlock()
	r.more <- struct{}{}
}

// wait waits for n runs and dead letters.
func (r *runs) wait(t *testing.T, n int) {
	t.Helper()
	end := time.After(time.Minute)
	for i := range n {
		select {
		case <-r.more:
		case <-end:
			r.mu.Lock()
			defer r.mu.Unlock()
			t.Fatalf("%d things happened, want %d: %v, and dead are %v", i, n, r.at, r.dead)
		}
	}
}

// want compares how often each message was handled, and that a hint was kept.
func (r *runs) want(t *testing.T, want map[string]int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for what, n := range want {
		if got := len(r.at[what]); got != n {
			t.Errorf("%s was handled %d times, want %d", what, got, n)
		}
	}
	if at := r.at["hint"]; len(at) == 2 && at[1].Sub(at[0]) < 2*time.Second {
		t.Errorf("the hint of 2 s was followed after %v", at[1].Sub(at[0]))
	}
}

func TestAsynq(t *testing.T) {
	redis := asynq.RedisClientOpt{Addr: startRedis(t)}
	r := newRuns()
	policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(0), Hooks: retry.Hooks{Done: func(_ context.Context, s retry.Summary) {
		if s.Err != nil {
			r.died("task", s.Reason)
		}
	}}}
	mux := asynq.NewServeMux()
	mux.Use(queues.AsynqMiddleware(policy, func(*asynq.Task) time.Time { return time.Time{} }))
	mux.HandleFunc("work", func(_ context.Context, task *asynq.Task) error { return r.handle(string(task.Payload())) })
	srv := asynq.NewServer(redis, asynq.Config{
		Concurrency: 4, RetryDelayFunc: queues.AsynqDelay, IsFailure: queues.AsynqIsFailure,
		LogLevel: asynq.FatalLevel, DelayedTaskCheckInterval: 100 * time.Millisecond, TaskCheckInterval: 100 * time.Millisecond,
	})
	if err := srv.Start(mux); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	client := asynq.NewClient(redis)
	defer client.Close()
	for what, most := range map[string]int{"good": 20, "hint": 20, "not yet": 20, "malformed": 20, "down": 20, "down soon": 1, "panics": 20} {
		if _, err := client.Enqueue(asynq.NewTask("work", []byte(what)), asynq.MaxRetry(most)); err != nil {
			t.Fatal(err)
		}
	}
	// Panics end in Done too, four times.
	want := map[string]int{"good": 1, "hint": 2, "not yet": 4, "malformed": 1, "down": 4, "down soon": 2, "panics": 4}
	r.wait(t, 1+2+4+1+4+2+4+3+4)
	r.want(t, want)
	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		archived, err := inspector.ListArchivedTasks("default")
		if err != nil {
			t.Fatal(err)
		}
		if len(archived) == 4 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d tasks are archived, want 4: %v", len(archived), archived)
		}
	}
}

// What asynq asks about an error that is not the middleware's.
func TestAsynqAfterACrash(t *testing.T) {
	if d := queues.AsynqDelay(1, errDown, asynq.NewTask("work", nil)); d <= 0 {
		t.Errorf("AsynqDelay() = %v, want asynq's own", d)
	}
	if !queues.AsynqIsFailure(errDown) {
		t.Error("a crash is not counted")
	}
}
