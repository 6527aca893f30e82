package clients_test

import (
	"context"
	"encoding/json"
	"net"
	"testing"

	"github.com/creachadair/jrpc2"
	jrpchandler "github.com/creachadair/jrpc2/handler"
	jrpcserver "github.com/creachadair/jrpc2/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
)

// What JSON-RPC says of the call itself is not repeated, and what a server says of itself is. To
// a queue that is patient a method that is not there may come.
func TestJSONRPC(t *testing.T) {
	local := jrpcserver.NewLocal(jrpchandler.Map{
		"fails": jrpchandler.New(func(context.Context) (int, error) { return 0, jrpc2.Errorf(-32000, "busy") }),
		"takes": jrpchandler.New(func(context.Context, []int) (int, error) { return 0, nil }),
	}, nil)
	defer local.Close()

	here, there := net.Pipe()
	sourcegraph := func(conn net.Conn) *jsonrpc2.Conn {
		return jsonrpc2.NewConn(t.Context(), jsonrpc2.NewBufferedStream(conn, jsonrpc2.VSCodeObjectCodec{}), jsonrpc2.HandlerWithError(func(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
			if r.Method == "fails" {
				return nil, &jsonrpc2.Error{Code: -32000, Message: "busy"}
			}
			return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "x"}
		}))
	}
	server, client := sourcegraph(there), sourcegraph(here)
	defer server.Close()
	defer client.Close()

	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	tools := mcp.NewServer(&mcp.Implementation{Name: "x", Version: "1"}, nil)
	go func() { _ = tools.Run(t.Context(), serverEnd) }()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "x", Version: "1"}, nil).Connect(t.Context(), clientEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()

	for name, tt := range map[string]struct {
		call     func(context.Context) error
		attempts int
		queue    retryqueue.Action
	}{
		"jrpc2, no such method": {func(ctx context.Context) error { return last(local.Client.Call(ctx, "none", nil)) }, 1, retryqueue.Retry},
		"jrpc2, wrong parameters": {func(ctx context.Context) error {
			return last(local.Client.Call(ctx, "takes", json.RawMessage(`{"a": 1}`)))
		}, 1, retryqueue.Dead},
		"jrpc2, a server's error":       {func(ctx context.Context) error { return last(local.Client.Call(ctx, "fails", nil)) }, 3, retryqueue.Retry},
		"sourcegraph, no such method":   {func(ctx context.Context) error { return client.Call(ctx, "none", nil, nil) }, 1, retryqueue.Retry},
		"sourcegraph, a server's error": {func(ctx context.Context) error { return client.Call(ctx, "fails", nil, nil) }, 3, retryqueue.Retry},
		"MCP, no such tool":             {func(ctx context.Context) error { return last(session.CallTool(ctx, &mcp.CallToolParams{Name: "none"})) }, 1, retryqueue.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)}
			err := retry.Run(t.Context(), p, func(ctx context.Context) error { attempts++; return tt.call(ctx) })
			if attempts != tt.attempts {
				t.Errorf("%v after %d attempts, want %d", err, attempts, tt.attempts)
			}
			if got := (retryqueue.Delivery{Number: 1}).After(p, tt.call(t.Context())).Action; got != tt.queue {
				t.Errorf("a queue's message: %v, want %v", got, tt.queue)
			}
		})
	}
}
