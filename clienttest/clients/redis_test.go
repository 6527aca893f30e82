package clients_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"

	"github.com/goretry/retry"
)

// Clients of Redis say what a real server answers.
func TestRedis(t *testing.T) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "redis")
	server := exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("redis-server hangs"))
	defer cancel()

	goredis := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1})
	defer goredis.Close()
	for goredis.Ping(ctx).Err() != nil {
		select {
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
	conn, err := redigo.DialContext(ctx, "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	setUp := func(command ...any) {
		t.Helper()
		if err := goredis.Do(ctx, command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	setUp("SET", "text", "x")
	setUp("XGROUP", "CREATE", "stream", "group", "$", "MKSTREAM")
	setUp("ACL", "SETUSER", "nobody", "on", ">x", "+ping", "+auth", "~*")
	for _, tt := range []struct {
		name    string
		before  []any
		command []any
		want    retry.Class
		after   []any
	}{
		{name: "WRONGTYPE", command: []any{"LPUSH", "text", "x"}, want: permanent},
		{name: "NOSCRIPT", command: []any{"EVALSHA", "0000000000000000000000000000000000000000", 0}, want: permanent},
		{name: "BUSYGROUP", command: []any{"XGROUP", "CREATE", "stream", "group", "$"}, want: permanent},
		{name: "NOGROUP", command: []any{"XREADGROUP", "GROUP", "none", "x", "STREAMS", "stream", ">"}, want: permanent},
		{name: "WRONGPASS", command: []any{"AUTH", "nobody", "y"}, want: permanent},
		{name: "ERR", command: []any{"WHATEVER"}, want: permanent},
		{name: "OOM", before: []any{"CONFIG", "SET", "maxmemory", "1"}, command: []any{"SET", "x", "x"}, want: throttled, after: []any{"CONFIG", "SET", "maxmemory", "0"}},
		{name: "READONLY", before: []any{"REPLICAOF", "127.0.0.1", "1"}, command: []any{"SET", "x", "x"}, want: transient, after: []any{"REPLICAOF", "NO", "ONE"}},
		{name: "NOREPLICAS", before: []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, command: []any{"SET", "x", "x"}, want: transient, after: []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
	} {
		if tt.before != nil {
			setUp(tt.before...)
		}
		_, err := conn.Do(tt.command[0].(string), tt.command[1:]...)
		for client, err := range map[string]error{"go-redis": goredis.Do(ctx, tt.command...).Err(), "redigo": err} {
			if got := retry.DefaultClassifier(err); err == nil || got != tt.want {
				t.Errorf("%s: %s: %T is %v, want %v: %v", client, tt.name, err, got, tt.want, err)
			}
		}
		if tt.after != nil {
			setUp(tt.after...)
		}
	}

	if got := retry.DefaultClassifier(goredis.Get(ctx, "nothing").Err()); got != permanent {
		t.Errorf("go-redis: a nil reply is %v, want %v", got, permanent)
	}
}
