package sql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/proxytest"
	"github.com/goretry/retry/retrysql"
)

// emptyAfterFailover returns hooks that empty a pool after an attempt has timed out, or has met a
// server that takes no writes, at most once a second: a database that is only slow has to connect
// again, too.
func emptyAfterFailover(empty func()) retry.Hooks {
	var latest atomic.Int64 // second in which the pool was emptied
	return retry.Hooks{AttemptDone: func(_ context.Context, a retry.Attempt) {
		standby, ok := errors.AsType[interface {
			error
			SQLState() string
		}](a.Err)
		if a.Class != retry.TimedOut && !(ok && standby.SQLState() == "25006") {
			return
		}
		if now := a.Start.Add(a.Duration).Unix(); latest.Swap(now) != now {
			empty()
		}
	}}
}

// emptyPool closes the idle connections of a pool that keeps up to idle of them. A driver's
// Close may wait for the server, so the attempts do not wait for it.
func emptyPool(db *sql.DB, idle int) {
	go func() {
		db.SetMaxIdleConns(-1)
		db.SetMaxIdleConns(idle)
	}()
}

// After a failover all idle connections of a pool may be dead. With pgxpool call Reset. It
// needs a server.
func Example_failover() {
	const idle = 12
	db, err := sql.Open("pgx", "postgres://localhost/bank")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxIdleConns(idle)
	policy := retry.Policy{
		Name:           "transfer",
		AttemptTimeout: time.Second,
		Hooks:          emptyAfterFailover(func() { emptyPool(db, idle) }),
	}
	_, err = retrysql.Tx(context.Background(), policy, db, nil, func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE name = 'ada'")
		return 0, err
	})
	fmt.Println(err)
}

// A pool of twelve dead connections costs a call one attempt if the first timeout empties it.
// Otherwise the attempts take one after the other.
func TestPoolAfterAFailover(t *testing.T) {
	for name, tt := range map[string]struct {
		fault   proxytest.Fault
		emptied bool
	}{
		"silent":              {proxytest.Silent, true},
		"dropped":             {proxytest.Dropped, true},
		"silent, not emptied": {proxytest.Silent, false},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.fault == proxytest.Dropped && !proxytest.CanDrop {
				t.Skip("the system cannot drop packets")
			}
			onServers(t, func(t *testing.T, db *database) {
				if db.name == "pq" {
					t.Skip("its statements do not end with the context")
				}
				testFailover(t, db, tt.fault, tt.emptied)
			})
		})
	}
}

func testFailover(t *testing.T, db *database, fault proxytest.Fault, emptied bool) {
	fill(t, db, 12)
	defer db.proxy.Strike(proxytest.Cut) // some drivers' Close waits for the server
	db.proxy.Strike(fault)
	p := quick
	p.MaxAttempts, p.AttemptTimeout = 4, 500*time.Millisecond
	if emptied {
		p.Hooks = emptyAfterFailover(db.empty)
	}
	attempts := 0
	p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{AttemptDone: func(context.Context, retry.Attempt) { attempts++ }})
	_, err := db.tx(t.Context(), p, insert)
	if emptied && (err != nil || attempts != 2) {
		t.Errorf("after %d attempts: %v", attempts, err)
	}
	if !emptied && attempts < 3 {
		t.Errorf("%d attempts suffice: %v", attempts, err)
	}
}

// fill has the pool open n connections.
func fill(t *testing.T, db *database, n int) {
	var begun, all sync.WaitGroup
	begun.Add(n)
	for range n {
		all.Go(func() {
			_, _ = db.tx(t.Context(), quick, func(ctx context.Context, tx tx) (int, error) {
				v, err := tx.number(ctx, "SELECT 1")
				if retry.AttemptNumber(ctx) == 1 {
					begun.Done()
					begun.Wait()
				}
				return v, err
			})
		})
	}
	all.Wait()
}

// lib/pq asks the server to cancel a statement and waits for its answer, though the context
// has ended. Tx waits with it: the function it called is still running.
func TestStatementOfPqOutlastsItsContext(t *testing.T) {
	onPostgreSQL(t, func(t *testing.T, db *database) {
		if db.name != "pq" {
			t.Skip("only lib/pq does that")
		}
		fill(t, db, 1)
		db.proxy.Strike(proxytest.Silent)
		p := quick
		p.MaxAttempts, p.AttemptTimeout = 1, 100*time.Millisecond
		var ended atomic.Bool
		time.AfterFunc(time.Second, func() {
			ended.Store(true)
			db.proxy.Strike(proxytest.Cut)
		})
		_, err := db.tx(t.Context(), p, insert)
		if err == nil || !ended.Load() {
			t.Errorf("%v before the connection has ended", err)
		}
	})
}

// switched opens connections to one of several servers.
type switched struct {
	driver.Connector // the first server's
	now              atomic.Pointer[driver.Connector]
}

func (s *switched) Connect(ctx context.Context) (driver.Conn, error) {
	return (*s.now.Load()).Connect(ctx)
}

// After a failover twenty idle connections lead to a server that has become a standby. The first
// attempt closes its own, the second the others, and the third reaches the new primary.
func TestPoolOfAStandby(t *testing.T) {
	for name, connector := range map[string]func(source string) (driver.Connector, error){
		"pgx": func(source string) (driver.Connector, error) {
			config, err := pgx.ParseConfig(source)
			return stdlib.GetConnector(*config), err
		},
		"pq": func(source string) (driver.Connector, error) { return pq.NewConnector(source) },
	} {
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
			t.Run(fmt.Sprint(name, " ", level), func(t *testing.T) {
				admin := postgres.admin(t)
				for _, query := range []string{"DROP TABLE IF EXISTS t", "CREATE TABLE t (n int)"} {
					if _, err := admin.ExecContext(t.Context(), query); err != nil {
						t.Fatal(err)
					}
				}
				var to [2]driver.Connector
				for i, s := range []*server{standby, postgres} {
					_, source := s.dsn(s.start(t))
					var err error
					if to[i], err = connector(source); err != nil {
						t.Fatal(err)
					}
				}
				s := &switched{Connector: to[0]}
				s.now.Store(&to[0])
				db := sql.OpenDB(s)
				defer db.Close()
				keep(t, db, 20)
				s.now.Store(&to[1])
				attempts := 0
				p := quick
				p.MaxAttempts, p.NonIdempotent = 3, true
				_, err := retrysql.Tx(t.Context(), p, db, &sql.TxOptions{Isolation: level}, func(ctx context.Context, tx *sql.Tx) (int, error) {
					attempts++
					_, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS u (n int); INSERT INTO t VALUES (1)")
					return 0, err
				})
				var rows int
				if scan := admin.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&rows); err != nil || scan != nil || rows != 1 {
					t.Errorf("%v after %d attempts, and %d rows, %v", err, attempts, rows, scan)
				}
				if n := db.Stats().OpenConnections; n != 1 {
					t.Errorf("%d connections are open, want the one to the primary", n)
				}
			})
		}
	}
}

// keep has a pool keep n idle connections.
func keep(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	db.SetMaxIdleConns(n)
	var conns []*sql.Conn
	for range n {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Close()
	}
}

// With pgxpool, the hook that empties the pool does it.
func TestPgxpoolOfAStandby(t *testing.T) {
	pools := [2]string{}
	for i, s := range []*server{standby, postgres} {
		pools[i] = s.start(t)
	}
	_, source := postgres.dsn(pools[1])
	config, err := pgxpool.ParseConfig(source + "&pool_max_conns=20")
	if err != nil {
		t.Fatal(err)
	}
	var to atomic.Int32 // which of them
	config.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, pools[to.Load()])
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var conns []*pgxpool.Conn
	for range 20 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Release()
	}
	to.Store(1)
	attempts := 0
	p := quick
	p.MaxAttempts, p.Hooks = 3, emptyAfterFailover(pool.Reset)
	_, err = retrysql.TxOf(t.Context(), p, pool.Begin, func(ctx context.Context, tx pgx.Tx) (int, error) {
		attempts++
		_, err := tx.Exec(ctx, "CREATE TEMPORARY TABLE x (n int)")
		return 0, err
	})
	if err != nil || attempts != 2 {
		t.Errorf("%v after %d attempts, want success after 2", err, attempts)
	}
}

// A MariaDB that is read-only says so by the number 1290, also at COMMIT, and has rolled back then.
func TestMariaDBThatIsReadOnly(t *testing.T) {
	admin := mariadb.admin(t)
	set := func(query string) {
		t.Helper()
		if _, err := admin.ExecContext(context.WithoutCancel(t.Context()), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	for _, query := range []string{"DROP TABLE IF EXISTS t", "CREATE TABLE t (n int)", "CREATE USER IF NOT EXISTS app", "GRANT ALL ON test.* TO app"} { // root may write
		set(query)
	}
	defer set("SET GLOBAL read_only = 0")
	for _, at := range []string{"a statement", "COMMIT"} {
		t.Run(at, func(t *testing.T) {
			set("DELETE FROM t")
			db := open(t, "mysql", "app@tcp("+mariadb.start(t)+")/test")
			keep(t, db, 20)
			attempts := 0
			p := quick
			p.MaxAttempts, p.NonIdempotent = 3, true
			_, err := retrysql.Tx(t.Context(), p, db, nil, func(ctx context.Context, tx *sql.Tx) (int, error) {
				if attempts++; attempts == 3 { // as if the connections led to another server by now
					if n := db.Stats().OpenConnections; n != 1 {
						t.Errorf("%d connections are open, want a new one", n)
					}
					set("SET GLOBAL read_only = 0")
				} else if at == "a statement" {
					set("SET GLOBAL read_only = 1")
				}
				_, err := tx.ExecContext(ctx, "INSERT INTO t VALUES (1)")
				if attempts == 1 && at == "COMMIT" {
					set("SET GLOBAL read_only = 1")
				}
				return 0, err
			})
			var rows int
			if scan := admin.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&rows); err != nil || scan != nil || rows != 1 || attempts != 3 {
				t.Errorf("%v after %d attempts, and %d rows, %v", err, attempts, rows, scan)
			}
		})
	}
}
