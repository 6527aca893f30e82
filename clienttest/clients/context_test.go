package clients_test

import (
	"context"
	"database/sql"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/clickhouse-go/v2"
	coder "github.com/coder/websocket"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/gorilla/websocket"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
)

// others are clients that do not speak HTTP, or not net/http's. Their own timeouts are
// an hour, where they have any.
var others = []struct {
	name    string
	ignores bool // the context
	call    func(ctx context.Context, addr string) error
}{
	{"go-redis", true, func(ctx context.Context, addr string) error {
		return pingRedis(ctx, &redis.Options{Addr: addr})
	}},
	{"go-redis with ContextTimeoutEnabled", false, func(ctx context.Context, addr string) error {
		return pingRedis(ctx, &redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	}},
	{"redigo, Do", true, func(ctx context.Context, addr string) error {
		conn, err := redigo.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		return last(conn.Do("PING")) // which takes no context
	}},
	{"redigo, DoContext", false, func(ctx context.Context, addr string) error {
		conn, err := redigo.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		return last(redigo.DoContext(conn, ctx, "PING"))
	}},
	{"go-sql-driver/mysql", false, func(ctx context.Context, addr string) error {
		return ping(ctx, "mysql", "root@tcp("+addr+")/x")
	}},
	{"go-mssqldb, while it connects", true, func(ctx context.Context, addr string) error {
		return ping(ctx, "sqlserver", "sqlserver://sa:x@"+addr+"?encrypt=disable&dial+timeout=3600")
	}},
	{"clickhouse-go, while it connects", true, func(ctx context.Context, addr string) error {
		conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{addr}, DialTimeout: time.Hour, ReadTimeout: time.Hour})
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.Ping(ctx)
	}},
	{"ch-go", false, func(ctx context.Context, addr string) error {
		return last(ch.Dial(ctx, ch.Options{Address: addr, DialTimeout: time.Hour, HandshakeTimeout: time.Hour, ReadTimeout: time.Hour}))
	}},
	{"franz-go", false, func(ctx context.Context, addr string) error {
		c, err := kgo.NewClient(kgo.SeedBrokers(addr))
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Ping(ctx)
	}},
	{"kafka-go", false, func(ctx context.Context, addr string) error {
		return last((&kafka.Client{Addr: kafka.TCP(addr), Timeout: time.Hour}).Metadata(ctx, &kafka.MetadataRequest{}))
	}},
	{"neo4j-go-driver", false, func(ctx context.Context, addr string) error {
		d, err := neo4j.NewDriverWithContext("bolt://"+addr, neo4j.NoAuth())
		if err != nil {
			return err
		}
		defer d.Close(context.WithoutCancel(ctx))
		return d.VerifyConnectivity(ctx)
	}},
	{"gRPC", false, func(ctx context.Context, addr string) error {
		cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer cc.Close()
		return cc.Invoke(ctx, "/x.X/X", &emptypb.Empty{}, &emptypb.Empty{}, grpc.WaitForReady(true))
	}},
	{"coder/websocket", false, func(ctx context.Context, addr string) error {
		conn, _, err := coder.Dial(ctx, "ws://"+addr, nil)
		if err == nil {
			conn.CloseNow()
		}
		return err
	}},
	{"gorilla/websocket", false, func(ctx context.Context, addr string) error {
		conn, _, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+addr, nil)
		if err == nil {
			conn.Close()
		}
		return err
	}},
}

func pingRedis(ctx context.Context, o *redis.Options) error {
	o.MaxRetries, o.DialerRetries, o.DialTimeout, o.ReadTimeout = -1, 1, time.Hour, time.Hour
	c := redis.NewClient(o)
	defer c.Close()
	return c.Ping(ctx).Err()
}

func ping(ctx context.Context, driver, source string) error {
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

// Policy.AttemptTimeout works by the context alone. So a client that ignores its context
// waits for as long as its own timeout, if it has any, whatever the policy says. The server
// here takes connections and never answers. CLIENTS.md lists who ignores it, and what
// to set.
func TestClientsHeedTheContext(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			heeds(t, c.ignores, func(ctx context.Context, addr string) error {
				transport := &http.Transport{DisableKeepAlives: true}
				return c.call(ctx, "http://"+addr, &http.Client{Transport: &toServer{addr, transport}}, true)
			})
		})
	}
	for _, c := range others {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			heeds(t, c.ignores, c.call)
		})
	}
}

// heeds fails unless a call ends with its context, or with its connection if it ignores
// its context.
func heeds(t *testing.T, ignores bool, call func(ctx context.Context, addr string) error) {
	addr, hangUp := silent(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(ctx, addr) }()
	<-ctx.Done()
	patience := time.Minute // for a busy machine
	if ignores {
		patience = 2 * time.Second
	}
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error, though nobody has answered")
		}
		if ignores {
			t.Errorf("it heeds its context by now: %v", err)
		}
	case <-time.After(patience):
		if !ignores {
			t.Errorf("no end %v after that of the context", patience)
		}
		hangUp()
		<-done
	}
}

// silent returns the address of a server that never answers, and a func that ends it.
func silent(t *testing.T) (addr string, hangUp func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	ended := false
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			if ended {
				conn.Close()
			}
			mu.Unlock()
		}
	}()
	hangUp = func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		l.Close()
		for _, conn := range conns {
			conn.Close()
		}
	}
	t.Cleanup(hangUp)
	return l.Addr().String(), hangUp
}
