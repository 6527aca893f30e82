package combine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/goretry/retry/retrysql"
)

// database is a driver of database/sql without statements.
type database struct{ *caller }

func (d database) Connect(context.Context) (driver.Conn, error) {
	if d.draw("connect", 8) == 0 {
		return nil, errRefused
	}
	return &conn{caller: d.caller}, nil
}

func (d database) Driver() driver.Driver { return nil }

// conn checks that its transactions do not overlap, and are ended.
type conn struct {
	*caller
	tx *transaction
}

func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("no statements") }
func (c *conn) Begin() (driver.Tx, error)           { return c.BeginTx(context.Background(), driver.TxOptions{}) }

func (c *conn) Close() error {
	if c.tx != nil {
		c.tx.rolledBack = true
	}
	return nil
}

func (c *conn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if c.tx != nil && !c.tx.committed && !c.tx.rolledBack {
		c.report("%s: BEGIN in a transaction", c.name)
	}
	if err := one(c.world, c.name+" begin", nil, nil, nil, nil, errDown, driver.ErrBadConn); err != nil {
		return nil, err
	}
	c.tx = c.begin()
	return driverTx{c.tx}, nil
}

type driverTx struct{ t *transaction }

func (d driverTx) Commit() error {
	if d.t.draw("commits", 4) == 0 {
		return errors.New("COMMIT: connection lost")
	}
	d.t.committed = true
	return nil
}

func (d driverTx) Rollback() error {
	d.t.rolledBack = true
	return nil
}

func (c *caller) begin() *transaction {
	t := &transaction{caller: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.txs = append(c.txs, t)
	return t
}

// inTx is the operation in a transaction. What fails there is rolled back, so it may run
// again unless its error is permanent.
func (c *caller) inTx(ctx context.Context) (int, error) {
	if c.draw(c.name+" stays", 8) == 0 {
		c.sleep(ctx, 40*time.Millisecond)
	}
	return 0, c.run(ctx)
}

func init() {
	ways = append(ways,
		way{name: "retrysql.Tx", solo: true, many: true, own: true, call: func(c *caller) error {
			db := sql.OpenDB(database{c})
			defer db.Close()
			_, err := retrysql.Tx(c.ctx, c.policy, db, nil, func(ctx context.Context, _ *sql.Tx) (int, error) { return c.inTx(ctx) })
			return err
		}},
		way{name: "retrysql.Tx in a Tx", many: true, own: true, most: unlimited, call: func(c *caller) error {
			db := sql.OpenDB(database{c})
			defer db.Close()
			inner := c.policy.Named(c.name + " inner")
			_, err := retrysql.Tx(c.ctx, c.policy, db, nil, func(ctx context.Context, _ *sql.Tx) (int, error) {
				return retrysql.Tx(ctx, inner, db, nil, func(ctx context.Context, _ *sql.Tx) (int, error) { return c.inTx(ctx) })
			})
			return err
		}},
		way{name: "retrysql.TxOf", many: true, sites: []string{"begin tx", "commit", "rollback"}, call: func(c *caller) error {
			_, err := retrysql.TxOf(c.ctx, c.policy, func(context.Context) (*transaction, error) {
				c.at("begin tx")
				if c.draw(c.name+" begin", 5) == 0 {
					return nil, errDown
				}
				return c.begin(), nil
			}, func(ctx context.Context, _ *transaction) (int, error) { return c.inTx(ctx) })
			return err
		}},
	)
}
