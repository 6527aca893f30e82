package retrysql

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/errtree"
)

// After a failover the connections of a pool may still lead to the server that was the primary.
// They are healthy, and database/sql takes the one that was used last: all attempts would go to
// the same server, which takes no writes. So a Tx on a *sql.DB holds its connection, to be able
// to close it.

// beginOn begins a transaction on a connection of pool, which ctx, an attempt's, keeps. If the
// driver says that the connection is dead, database/sql looks for another one, which ctx does not
// know.
func beginOn(ctx context.Context, pool *sql.DB, opts *sql.TxOptions) (stdTx, error) {
	in := ctx.(*inside)
	conn, err := pool.Conn(ctx)
	if err != nil {
		return stdTx{}, err
	}
	tx, err := conn.BeginTx(ctx, opts)
	switch {
	case err == nil:
		in.conn = conn
	case errtree.Holds(err, driver.ErrBadConn):
		_ = conn.Close()
		tx, err = pool.BeginTx(ctx, opts)
	default:
		in.conn = conn
		in.leave(err, nil)
	}
	return stdTx{tx}, err
}

// leave gives the connection of a transaction that has ended with err back to the pool, or closes
// it if its server takes no writes. late is the error of ROLLBACK.
func (in *inside) leave(err, late error) {
	switch conn := in.conn; {
	case conn == nil:
	case in.demoted(err):
		discard(conn)
	case in.Err() != nil && errtree.Holds(late, sql.ErrTxDone): // database/sql may be at its own ROLLBACK, for which Close waits
		go conn.Close()
	default:
		_ = conn.Close()
	}
}

// demoted reports whether err says that the server takes no writes, although the transaction may
// make some.
func (in *inside) demoted(err error) bool { return !in.readOnly && demoted(err) }

// demoted reports whether err says that a server takes no writes.
func demoted(err error) bool {
	return err != nil && errtree.Walk(err, func(err error) errtree.Next {
		if _, ok := err.(*retry.Error); ok {
			return errtree.Past // of another database, or of a transaction inside this one
		}
		says, _ := factsOf(err)
		return when(says.Is(clienterr.Demoted))
	})
}

// closeIdle closes the idle connections of pool: two attempts have come to a server that takes
// no writes. Others take connections meanwhile, so it may close one that was just opened.
func closeIdle(ctx context.Context, pool *sql.DB) {
	for n := pool.Stats().Idle; n > 0 && pool.Stats().Idle > 0; n-- {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return
		}
		discard(conn)
	}
}

// discard closes a connection in place of giving it back to its pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}
