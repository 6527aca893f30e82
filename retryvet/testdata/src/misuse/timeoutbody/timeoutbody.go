package timeoutbody

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
)

func hedged(ctx context.Context, p retry.Policy, h *hedge.Hedge) {
	ask := func(ctx context.Context) (*http.Response, error) { return get(ctx) }
	_, _ = hedge.Do(ctx, p, h, ask)                                                // want `hedge.Do ends the context of this \*net/http.Response`
	_, _ = hedge.DoValue(ctx, p, h, ask, hedge.Value[*http.Response]{})            // want `hedge.DoValue without Hold ends the context`
	_, _ = hedge.DoValue(ctx, p, h, ask, hedge.Value[*http.Response]{Hold: holds}) // it keeps the context
	_, _ = hedge.DoValue(ctx, p, h, get, hedge.Value[*http.Response]{})            // get may see to it itself
	_, _ = hedge.Race(ctx, p, h, ask, hedge.Value[*http.Response]{})               // want `hedge.Race without Hold ends the context`
	_, _ = hedge.Race(ctx, p, h, ask, hedge.Value[*http.Response]{Hold: holds})
	_, _ = hedge.DoValue(ctx, policy, h, ask, hedge.Value[*http.Response]{Hold: holds}) // want `AttemptTimeout ends the context of this`
	_, _ = hedge.Race(ctx, policy, h, ask, hedge.Value[*http.Response]{Hold: holds})    // the run's caller has the timeout
	_, _ = hedge.Do(ctx, p, h, func(context.Context) (text, error) { return text{}, nil })
}

func holds(r *http.Response, _ context.CancelFunc) *http.Response { return r }

var policy = retry.Policy{AttemptTimeout: time.Second}

type object struct{ Body io.ReadCloser }
type text struct{ Body string }

func get(context.Context) (*http.Response, error) { return nil, nil }

func wrong(ctx context.Context, db *sql.DB) {
	_, _ = retry.Do(ctx, policy, get)            // want `AttemptTimeout ends the context of this \*net/http.Response`
	_, _ = retry.Do(ctx, policy.Named("x"), get) // want `AttemptTimeout ends`
	p := retry.Policy{AttemptTimeout: time.Second}
	_, _ = retry.Do(ctx, p, func(ctx context.Context) (*sql.Rows, error) { // want `context of this \*database/sql.Rows`
		return db.QueryContext(ctx, "select 1")
	})
	_, _ = retry.Do(ctx, p, func(context.Context) (io.ReadCloser, error) { return nil, nil }) // want `io.ReadCloser`
	_, _ = retry.Do(ctx, p, func(context.Context) (*object, error) { return nil, nil })       // want `\*object`
	_, _ = retry.Do(ctx, p, func(context.Context) (object, error) { return object{}, nil })   // want `object`
}

func right(ctx context.Context) {
	_, _ = retry.Do(ctx, retry.Policy{}, get)
	_, _ = retry.Do(ctx, retry.Policy{AttemptTimeout: 0}, get)
	_, _ = retry.Do(ctx, policy, func(context.Context) (text, error) { return text{}, nil })
	_, _ = retry.Do(ctx, policy, func(context.Context) ([]byte, error) { return nil, nil })
	_, _ = retry.Do(ctx, policy, func(ctx context.Context) (*http.Response, error) {
		resp, err := get(ctx)
		if err != nil {
			return nil, err
		}
		all, err := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(all))
		return resp, err
	})
	p := retry.Policy{AttemptTimeout: time.Second}
	p.AttemptTimeout = 0
	_, _ = retry.Do(ctx, p, get)
}
