package clients_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clienttest/internal/pipes"
	"github.com/goretry/retry/retryhttp"
)

// dead is a server whose connections go silent when it is frozen. New ones answer.
type dead struct {
	mu     sync.Mutex
	frozen map[net.Conn]bool
	conns  map[net.Conn]bool
	fill   chan struct{} // closed when all calls are to be answered
}

// silent reports whether a connection has gone silent.
func (d *dead) silent(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[conn] = true
	return d.frozen[conn]
}

// freeze lets the connections that there are go silent.
func (d *dead) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = maps.Clone(d.conns)
}

// A pooled client keeps connections for its next calls. says is a cell of docs/clients.md: what is
// set, and how many attempts a call takes after all connections have died.
type pooled struct {
	name, says string
	serve      func(network *pipes.Pipes, d *dead) (stop func())
	open       func(network *pipes.Pipes) (call func(context.Context) error, end func())
}

func asRedis(network *pipes.Pipes, d *dead) (stop func()) {
	return answerRedis(network, func(conn net.Conn, _ []string) string {
		if <-d.fill; d.silent(conn) {
			_, _ = io.Copy(io.Discard, conn) // until the client closes it
			return ""
		}
		return "+OK\r\n"
	})
}

func asMongo(network *pipes.Pipes, d *dead) (stop func()) {
	return serveMongo(network, d.silent, func([]byte) { <-d.fill }, bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 1}})
}

type connKey struct{}

func asWeb(network *pipes.Pipes, d *dead) (stop func()) {
	server, done := &http.Server{
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if <-d.fill; d.silent(r.Context().Value(connKey{}).(net.Conn)) {
				<-r.Context().Done()
			}
		}),
	}, make(chan struct{})
	go func() { defer close(done); _ = server.Serve(network) }()
	return func() { server.Close(); <-done }
}

func goRedis(set func(*redis.Options)) func(*pipes.Pipes) (func(context.Context) error, func()) {
	return func(network *pipes.Pipes) (func(context.Context) error, func()) {
		o := &redis.Options{Addr: "192.0.2.1:80", Dialer: network.Dial, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: connections}
		set(o)
		c := redis.NewClient(o)
		return func(ctx context.Context) error { return c.Set(ctx, "x", "x", 0).Err() }, func() { c.Close() }
	}
}

func redigoPool(set func(*redigo.Pool)) func(*pipes.Pipes) (func(context.Context) error, func()) {
	return func(network *pipes.Pipes) (func(context.Context) error, func()) {
		p := &redigo.Pool{MaxIdle: connections, DialContext: func(ctx context.Context) (redigo.Conn, error) {
			return redigo.DialContext(ctx, "tcp", "192.0.2.1:80", redigo.DialContextFunc(network.Dial))
		}}
		set(p)
		return func(ctx context.Context) error {
			c, err := p.GetContext(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return last(redigo.DoContext(c, ctx, "SET", "x", "x"))
		}, func() { p.Close() }
	}
}

func rueidisClient(set func(*rueidis.ClientOption)) func(*pipes.Pipes) (func(context.Context) error, func()) {
	return func(network *pipes.Pipes) (func(context.Context) error, func()) {
		o := rueidisOptions(network, true)
		set(&o)
		c, err := rueidis.NewClient(o)
		if err != nil {
			panic(err)
		}
		return func(ctx context.Context) error { return c.Do(ctx, c.B().Set().Key("x").Value("x").Build()).Error() }, c.Close
	}
}

func mongoClient(network *pipes.Pipes) (func(context.Context) error, func()) {
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://192.0.2.1:80").SetDialer(contextDialer(network.Dial)).SetRetryWrites(false).SetMaxConnecting(connections))
	if err != nil {
		panic(err)
	}
	return func(ctx context.Context) error {
		return last(c.Database("x").Collection("x").InsertOne(ctx, bson.D{}))
	}, func() { _ = c.Disconnect(context.Background()) }
}

func netHTTP(set func(*http.Transport) http.RoundTripper) func(*pipes.Pipes) (func(context.Context) error, func()) {
	return func(network *pipes.Pipes) (func(context.Context) error, func()) {
		base := &http.Transport{DialContext: network.Dial}
		hc := &http.Client{Transport: set(base)}
		return func(ctx context.Context) error {
			resp, err := get(ctx, "http://192.0.2.1", hc)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return err
		}, base.CloseIdleConnections
	}
}

const connections = 12

var pools = []pooled{
	{"go-redis", "13", asRedis, goRedis(func(*redis.Options) {})},
	{"go-redis", "`MinIdleConns` equal to `PoolSize`: 2", asRedis, goRedis(func(o *redis.Options) { o.MinIdleConns = o.PoolSize })},
	{"redigo", "13", asRedis, redigoPool(func(*redigo.Pool) {})},
	{"redigo", "`TestOnBorrowContext` with a command that may take 50 ms: 1", asRedis, redigoPool(func(p *redigo.Pool) {
		p.TestOnBorrowContext = func(ctx context.Context, c redigo.Conn, _ time.Time) error {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			return last(redigo.DoContext(c, ctx, "GET", "x"))
		}
	})},
	{"rueidis", "12-13", asRedis, rueidisClient(func(*rueidis.ClientOption) {})},
	{"rueidis", "`ConnWriteTimeout` of a second: 4-5", asRedis, rueidisClient(func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Second })},
	{"mongo-driver", "13", asMongo, mongoClient},
	{"net/http", "3", asWeb, netHTTP(func(base *http.Transport) http.RoundTripper { return base })},
	{"net/http with `MaxIdleConnsPerHost: 12`", "13", asWeb, netHTTP(twelve)},
	{"net/http with `MaxIdleConnsPerHost: 12`", "a `retryhttp.Transport` with an `AttemptTimeout`: 1", asWeb, netHTTP(func(base *http.Transport) http.RoundTripper {
		return &retryhttp.Transport{Base: twelve(base), Policy: retry.Policy{AttemptTimeout: 300 * time.Millisecond}}
	})},
}

func twelve(base *http.Transport) http.RoundTripper {
	base.MaxIdleConnsPerHost = connections
	return base
}

// attempts fills a pool with twelve connections, lets all die, and returns how many attempts a
// call needs after that.
func (p *pooled) attempts(t *testing.T) (attempts int) {
	synctest.Test(t, func(t *testing.T) {
		network := pipes.New()
		d := &dead{conns: map[net.Conn]bool{}, fill: make(chan struct{})}
		stop := p.serve(network, d)
		call, end := p.open(network)
		var all sync.WaitGroup
		for range connections {
			all.Go(func() {
				if err := call(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // each call has a connection of its own, and no answer
		close(d.fill)
		all.Wait()
		d.freeze()
		policy := retry.Policy{MaxAttempts: 40, AttemptTimeout: time.Second, Backoff: retry.Constant(100 * time.Millisecond)}
		if err := retry.Run(t.Context(), policy, func(ctx context.Context) error { attempts++; return call(ctx) }); err != nil {
			t.Error(err)
		}
		end()
		stop()
		time.Sleep(time.Minute)
	})
	return attempts
}

const ofPool = "RETRY_TEST_POOL"

// After a failover all idle connections of a pool may be dead, and each attempt takes the next
// one. docs/clients.md says of each pool what that costs, and what helps. Each is in a process of
// its own: go-redis hands timers from one bubble to the next.
func TestPools(t *testing.T) {
	if i, err := strconv.Atoi(os.Getenv(ofPool)); err == nil {
		fmt.Printf("attempts=%d\n", pools[i].attempts(t))
		return
	}
	page := text(t)
	for i, p := range pools {
		t.Run(p.name+" "+p.says, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPools$")
			cmd.Env = append(os.Environ(), ofPool+"="+strconv.Itoa(i))
			out, err := cmd.CombinedOutput()
			var n int64
			if _, scanErr := fmt.Sscanf(string(out), "attempts=%d", &n); err != nil || scanErr != nil {
				t.Fatalf("%v, %v: %s", err, scanErr, out)
			}
			said := pageRow{requests: p.says[strings.LastIndex(p.says, ": ")+1:]}
			if said.requests = strings.TrimSpace(said.requests); !said.agrees(n, 0) {
				t.Errorf("%d attempts", n)
			}
			found := false
			for line := range strings.Lines(page) {
				found = found || strings.HasPrefix(line, "| "+p.name+" |") && strings.Contains(line, "| "+p.says+" |")
			}
			if !found {
				t.Errorf("the page does not have %q of %s", p.says, p.name)
			}
		})
	}
}
