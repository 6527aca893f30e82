package sql_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysql"
)

// tx is a transaction, of whatever package.
type tx interface {
	exec(ctx context.Context, query string) error
	number(ctx context.Context, query string) (int, error)
	commit(ctx context.Context) error
}

// database is one way to a database.
type database struct {
	name  string
	admin *sql.DB // another way to the same one, beside the proxy
	proxy *proxy  // nil for SQLite
	inUse func() int
	std   *sql.DB // nil for pgxpool
	close func()
	empty func() // closes the pool's idle connections
	begun string // counts the server's open transactions, "" if it cannot

	// tx is retrysql.Tx or TxOf, at the strictest isolation level.
	tx func(context.Context, retry.Policy, func(context.Context, tx) (int, error)) (int, error)
}

type sqlTx struct{ *sql.Tx }

func (t sqlTx) exec(ctx context.Context, query string) error {
	_, err := t.ExecContext(ctx, query)
	return err
}

func (t sqlTx) number(ctx context.Context, query string) (n int, err error) {
	return n, t.QueryRowContext(ctx, query).Scan(&n)
}

func (t sqlTx) commit(context.Context) error { return t.Commit() }

type pgxTx struct{ pgx.Tx }

func (t pgxTx) exec(ctx context.Context, query string) error {
	_, err := t.Exec(ctx, query)
	return err
}

func (t pgxTx) number(ctx context.Context, query string) (n int, err error) {
	return n, t.QueryRow(ctx, query).Scan(&n)
}

func (t pgxTx) commit(ctx context.Context) error { return t.Commit(ctx) }

// standard is a database that is reached by database/sql.
func standard(t *testing.T, name, driver, source string) *database {
	db := open(t, driver, source)
	db.SetMaxIdleConns(16)
	db.SetMaxOpenConns(16) // as in pool; to open one takes SQLite long under the race detector
	return &database{name: name, std: db, close: func() { db.Close() }, empty: func() { emptyPool(db, 16) }, inUse: func() int { return db.Stats().InUse },
		tx: func(ctx context.Context, p retry.Policy, fn func(context.Context, tx) (int, error)) (int, error) {
			return retrysql.Tx(ctx, p, db, &sql.TxOptions{Isolation: sql.LevelSerializable}, func(ctx context.Context, t *sql.Tx) (int, error) {
				return fn(ctx, sqlTx{t})
			})
		}}
}

// pool is a PostgreSQL that is reached by pgxpool.
func pool(t *testing.T, source string) *database {
	pool, err := pgxpool.New(t.Context(), source+"&pool_max_conns=16")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	begin := func(ctx context.Context) (pgx.Tx, error) {
		return pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	}
	return &database{name: "pgxpool", close: pool.Close, empty: pool.Reset, inUse: func() int { return int(pool.Stat().AcquiredConns()) },
		tx: func(ctx context.Context, p retry.Policy, fn func(context.Context, tx) (int, error)) (int, error) {
			return retrysql.TxOf(ctx, p, begin, func(ctx context.Context, t pgx.Tx) (int, error) { return fn(ctx, pgxTx{t}) })
		}}
}

func open(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// onSQLite, onPostgreSQL and onMariaDB run test on each way to that system. The
// table t is empty, the table counter has a row 1 and a row 2 with n = 0.
func onSQLite(t *testing.T, test func(*testing.T, *database)) {
	t.Run("SQLite", func(t *testing.T) {
		source := "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=foreign_keys(1)&_pragma=synchronous(0)" // no fsync, as of the servers
		db := standard(t, "SQLite", "sqlite", source)
		db.admin = open(t, "sqlite", source)
		run(t, db, test)
	})
}

func onPostgreSQL(t *testing.T, test func(*testing.T, *database)) {
	for name, open := range map[string]func(*testing.T, string) *database{
		"pgx":     func(t *testing.T, source string) *database { return standard(t, "pgx", "pgx", source) },
		"pq":      func(t *testing.T, source string) *database { return standard(t, "pq", "postgres", source) },
		"pgxpool": pool,
	} {
		t.Run("PostgreSQL/"+name, func(t *testing.T) {
			p := newProxy(t, postgres.start(t))
			_, source := postgres.dsn(p.Addr())
			db := open(t, source)
			db.proxy, db.admin = p, postgres.admin(t)
			db.begun = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
			run(t, db, test)
		})
	}
}

func onMariaDB(t *testing.T, test func(*testing.T, *database)) {
	t.Run("MariaDB", func(t *testing.T) {
		p := newProxy(t, mariadb.start(t))
		driver, source := mariadb.dsn(p.Addr())
		db := standard(t, "MariaDB", driver, source)
		db.proxy, db.admin = p, mariadb.admin(t)
		db.begun = "SELECT count(*) FROM information_schema.innodb_trx"
		run(t, db, test)
	})
}

func onServers(t *testing.T, test func(*testing.T, *database)) {
	onPostgreSQL(t, test)
	onMariaDB(t, test)
}

func onAll(t *testing.T, test func(*testing.T, *database)) {
	onSQLite(t, test)
	onServers(t, test)
}

func run(t *testing.T, db *database, test func(*testing.T, *database)) {
	for _, query := range []string{
		"DROP TABLE IF EXISTS t", "CREATE TABLE t (n int)",
		"DROP TABLE IF EXISTS counter", "CREATE TABLE counter (id int PRIMARY KEY, n int)", "INSERT INTO counter VALUES (1, 0), (2, 0)",
	} {
		db.setUp(t, query)
	}
	test(t, db)
	eventually(t, "no connection in use", func() bool { return db.inUse() == 0 }) // pgxpool closes in the background
	if db.begun != "" {
		eventually(t, "no open transaction", func() bool { return db.number(t, db.begun) == 0 })
	}
}

// setUp runs a query beside the transactions.
func (db *database) setUp(t *testing.T, query string) {
	t.Helper()
	if _, err := db.admin.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// number runs a query beside the transactions.
func (db *database) number(t *testing.T, query string) (n int) {
	t.Helper()
	if err := db.admin.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// wantRows checks how many rows t has.
func (db *database) wantRows(t *testing.T, want int) {
	t.Helper()
	if n := db.number(t, "SELECT count(*) FROM t"); n != want {
		t.Errorf("%d rows, want %d", n, want)
	}
}

// insert is a transaction of one row.
func insert(ctx context.Context, t tx) (int, error) {
	return 7, t.exec(ctx, "INSERT INTO t VALUES (1)")
}

func (s *server) admin(t *testing.T) *sql.DB {
	t.Helper()
	driver, source := s.dsn(s.start(t))
	return open(t, driver, source)
}

func init() { _ = mysql.SetLogger(&mysql.NopLogger{}) } // lost connections are what these tests are about
