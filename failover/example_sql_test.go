package failover_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/retrysql"
)

// nameOf reads from the first replica that answers. Writes go to the primary alone.
func nameOf(ctx context.Context, readers *failover.Set[*sql.DB], id int) (string, error) {
	policy := retry.Policy{Name: "name-of", MaxAttempts: 4, AttemptTimeout: time.Second, Classify: retrysql.Classify}
	return failover.Do(ctx, policy, readers, func(ctx context.Context, t *failover.Target[*sql.DB]) (name string, err error) {
		err = t.Value.QueryRowContext(ctx, "SELECT name FROM users WHERE id = $1", id).Scan(&name)
		return name, err
	})
}

// Readers in an order of preference. No rows is an answer: the run ends with it.
func Example_sql() {
	near, far := sql.OpenDB(database{errors.New("connection reset")}), sql.OpenDB(database{})
	defer near.Close()
	defer far.Close()
	readers := &failover.Set[*sql.DB]{Targets: []*failover.Target[*sql.DB]{{Name: "near", Value: near}, {Name: "far", Value: far}}}
	fmt.Println(nameOf(context.Background(), readers, 7))
	_, err := nameOf(context.Background(), readers, 0)
	fmt.Println(errors.Is(err, sql.ErrNoRows))
	// Output:
	// Gopher <nil>
	// true
}

// database knows user 7, unless it is down.
type database struct{ down error }

func (d database) Driver() driver.Driver                        { return nil }
func (d database) Connect(context.Context) (driver.Conn, error) { return d, d.down }
func (d database) Prepare(string) (driver.Stmt, error)          { return d, nil }
func (d database) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (d database) Close() error                                 { return nil }
func (d database) NumInput() int                                { return 1 }
func (d database) Exec([]driver.Value) (driver.Result, error)   { return nil, errors.ErrUnsupported }
func (d database) Query(args []driver.Value) (driver.Rows, error) {
	return &rows{args[0] == int64(7)}, nil
}

type rows struct{ one bool }

func (r *rows) Columns() []string { return []string{"name"} }
func (r *rows) Close() error      { return nil }
func (r *rows) Next(dest []driver.Value) error {
	if !r.one {
		return io.EOF
	}
	r.one, dest[0] = false, "Gopher"
	return nil
}
