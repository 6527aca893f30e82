package clients_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2"
	telegram "github.com/go-telegram/bot"
	"github.com/mymmrac/telego"

	"github.com/goretry/retry"
)

// The clients of Telegram have the status, and how long to wait, under names of their own.
func TestTelegram(t *testing.T) {
	const token = "123456789:aaaabbbbaaaabbbbaaaabbbbaaaabbbbccc"
	var status int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		parameters := ""
		if status == http.StatusTooManyRequests {
			parameters = `, "parameters": {"retry_after": 7}`
		}
		fmt.Fprintf(w, `{"ok": false, "error_code": %d, "description": "x"%s}`, status, parameters)
	}))
	defer server.Close()
	one, err := telego.NewBot(token, telego.WithAPIServer(server.URL), telego.WithDiscardLogger())
	if err != nil {
		t.Fatal(err)
	}
	two, err := telegram.New(token, telegram.WithServerURL(server.URL), telegram.WithSkipGetMe())
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(context.Context) error{
		"telego":      func(ctx context.Context) error { return last(one.GetMe(ctx)) },
		"go-telegram": func(ctx context.Context) error { return last(two.GetMe(ctx)) },
	} {
		for code, want := range map[int]retry.Class{400: permanent, 401: permanent, 403: permanent, 429: throttled, 502: transient} {
			status = code
			err := call(t.Context())
			v := retry.Policy{}.Judge(err)
			if v.Class != want && !(want == transient && v.Class == unknown) || (v.Hint == 7*time.Second) != (code == 429) {
				t.Errorf("%s, %d: %v is %v with a wait of %v, want %v", name, code, err, v.Class, v.Hint, want)
			}
		}
	}
}

// After a message that could not be published Pub/Sub refuses all others with its key. A run does
// not go on then, and its text still says what went wrong.
func TestPubSubPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		err := retry.Run(t.Context(), retry.Policy{}, func(context.Context) error {
			if attempts++; attempts == 1 {
				return errors.New("rpc error: code = Unavailable")
			}
			return pubsub.ErrPublishingPaused{OrderingKey: "x"}
		})
		if attempts != 2 || !strings.HasSuffix(err.Error(), "; before that: rpc error: code = Unavailable") {
			t.Errorf("%v after %d attempts, want 2, and the first error", err, attempts)
		}
	})
}
