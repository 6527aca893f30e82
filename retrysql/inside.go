package retrysql

import (
	"context"
	"database/sql"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
)

// inside is the context of an attempt, in which a transaction may be open.
type inside struct {
	context.Context
	db       any  // of Tx; nil: of TxOf
	readOnly bool // as the options of Tx say
	guards   []retry.Guard
	tx       any         // nil if BEGIN failed
	conn     *sql.Conn   // of a Tx on a *sql.DB; nil if it is not known
	over     atomic.Bool // the transaction has ended
	commit   grace
}

type insideKey struct{}

func (in *inside) Value(key any) any {
	if key == (insideKey{}) {
		return in
	}
	return in.Context.Value(key)
}

// Outside returns a context in which no transaction counts as open: a [Tx] or [TxOf] in
// it makes its own attempts, whatever transaction ctx belongs to. Use it if fn works on
// another database through TxOf, or starts work that has its own end, and retrysql
// cannot see that: the package documentation says when it can.
func Outside(ctx context.Context) context.Context {
	return context.WithValue(ctx, insideKey{}, nil)
}

// around returns the open transaction around ctx, in's run's context, of which in is, or may
// be, a part, nil if there is none. One from whose end ctx is detached does not count.
func (in *inside) around(ctx context.Context) *inside {
	detached := ctx.Done() == nil
	for {
		outer, _ := ctx.Value(insideKey{}).(*inside)
		switch {
		case outer == nil, detached && outer.Done() != nil:
			return nil
		case !outer.over.Load() && in.partOf(outer):
			return outer
		}
		ctx = outer.Context
	}
}

// admitting returns those guards that are to admit in, whose BEGIN is still to come. What runs in
// an open transaction was admitted with it: a guard that refused it, or had it wait, would do
// that while the outer one holds its place, its locks and its connection. If it cannot be known
// yet that in is a part of outer, the guards that outer does not have are called.
func (in *inside) admitting(guards []retry.Guard, outer *inside) []retry.Guard {
	if in.db != nil || outer.db != nil || connection(outer.tx) == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(guards), func(g retry.Guard) bool {
		return slices.ContainsFunc(outer.guards, func(held retry.Guard) bool { return same(g, held) })
	})
}

// partOf reports whether in may be a savepoint in outer, or on the same database. Tx says its
// db, and some transactions of TxOf their connection. Only two of one kind can be
// compared: a wrong no could keep outer's locks while in waits for them in vain.
func (in *inside) partOf(outer *inside) bool {
	if in.db != nil && outer.db != nil {
		return same(in.db, outer.db)
	}
	if in.db != nil || outer.db != nil {
		return true
	}
	conn, around := connection(in.tx), connection(outer.tx)
	return conn == nil || around == nil || same(conn, around)
}

// connection returns what the method Conn of a transaction such as pgx.Tx returns, nil
// if there is none.
func connection(tx any) any {
	if tx == nil {
		return nil
	}
	m := reflect.ValueOf(tx).MethodByName("Conn")
	if !m.IsValid() || m.Type().NumIn() != 0 || m.Type().NumOut() != 1 {
		return nil
	}
	return m.Call(nil)[0].Interface()
}

// same reports whether a and b are equal. Those that cannot be compared are, if they
// are of one type.
func same(a, b any) bool {
	return a != nil && b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && (!reflect.ValueOf(a).Comparable() || a == b)
}

// patience is how long a COMMIT may go on after its attempt's context has ended, and
// how long a ROLLBACK may take.
const patience = 5 * time.Second

// grace is the context of a COMMIT, which the caller's end must not cut: nobody would
// know whether it happened. It ends 5 s later than the attempt's. It costs nothing for
// a COMMIT that does not look at it.
type grace struct {
	attempt context.Context
	once    sync.Once
	ctx     context.Context
	end     func()
}

// of returns g for an attempt's context. It returns that one if it never ends.
func (g *grace) of(attempt context.Context) context.Context {
	if attempt.Done() == nil {
		return attempt
	}
	g.attempt = attempt
	return g
}

func (g *grace) open() context.Context {
	g.once.Do(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(g.attempt))
		stop := context.AfterFunc(g.attempt, func() {
			select {
			case <-time.After(patience):
				cancel()
			case <-ctx.Done():
			}
		})
		g.ctx, g.end = ctx, func() { stop(); cancel() }
	})
	return g.ctx
}

// close ends the context: the COMMIT is over.
func (g *grace) close() {
	g.once.Do(func() { g.ctx, g.end = ended, func() {} })
	g.end()
}

// ended is for a driver that looks at the context of a COMMIT too late.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (g *grace) Deadline() (time.Time, bool) { return g.open().Deadline() }
func (g *grace) Done() <-chan struct{}       { return g.open().Done() }
func (g *grace) Err() error                  { return g.open().Err() }
func (g *grace) Value(key any) any           { return g.open().Value(key) }
