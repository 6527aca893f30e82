package freshstate

import (
	"context"
	"database/sql"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryqueue"
	"github.com/goretry/retry/retrysql"
)

func op(context.Context) error                   { return nil }
func value(context.Context) (int, error)         { return 0, nil }
func inTx(context.Context, *sql.Tx) (int, error) { return 0, nil }

func wrong(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Budget: &budget.Token{Capacity: 10}}, op) // want `this budget.Token is new for each call, so it knows nothing of the others: make one, in a package variable`
}

func earned(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Budget: &retry.EarnedBudget{}}, op) // want `this retry.EarnedBudget is new for each call`
}

func alsoWrong(ctx context.Context) error {
	budget := &budget.Ratio{} // want `this budget.Ratio is new for each call`
	p := retry.Policy{Budget: budget}
	return retry.Run(ctx, p, op)
}

func withNew(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Budget: new(budget.Ratio)}, op) // want `this budget.Ratio is new for each call`
}

func declared(ctx context.Context) error {
	var b budget.Token // want `this budget.Token is new for each call`
	return retry.Run(ctx, retry.Policy{Budget: &b}, op)
}

func set(ctx context.Context, p retry.Policy) error {
	p.Budget = &budget.Token{} // want `this budget.Token is new for each call`
	return retry.Run(ctx, p.Named("x"), op)
}

func pointed(ctx context.Context) error {
	p := &retry.Policy{}
	p.Budget = &budget.Token{} // want `this budget.Token is new for each call`
	return retry.Run(ctx, *p, op)
}

func inLoop(ctx context.Context) {
	for range 10 {
		_ = retry.Run(ctx, retry.Policy{Budget: &budget.Token{}}, op) // want `is new for each call`
	}
}

// Everything that takes a policy is the same.
func others(ctx context.Context, db *sql.DB, req *http.Request, begin func(context.Context) (pgTx, error), m retryqueue.Delivery) {
	_, _ = retrysql.Tx(ctx, retry.Policy{Budget: &budget.Token{}}, db, nil, inTx)                                                       // want `is new for each call`
	_, _ = retrysql.TxOf(ctx, retry.Policy{Budget: &budget.Token{}}, begin, func(context.Context, pgTx) (int, error) { return 0, nil }) // want `is new for each call`
	_, _ = retryhttp.JSON[int](ctx, retry.Policy{Budget: &budget.Token{}}, nil, req)                                                    // want `is new for each call`
	_, _ = retryhttp.Download(ctx, retry.Policy{Budget: &budget.Token{}}, nil, req)                                                     // want `is new for each call`
	_ = m.Handle(ctx, retry.Policy{Budget: &budget.Token{}}, op, nil)                                                                   // want `is new for each call`
	_ = m.After(retry.Policy{Budget: &budget.Token{}}, nil)                                                                             // want `is new for each call`
	_ = retry.Policy{Budget: &budget.Token{}}.Attempts(ctx)                                                                             // want `is new for each call`
	_ = retry.Policy{Budget: &budget.Token{}}.Start(time.Now())                                                                         // want `is new for each call`
	_ = retry.NewTicker(ctx, retry.Policy{Budget: &budget.Token{}})                                                                     // want `is new for each call`
}

type pgTx struct{}

func (pgTx) Commit(context.Context) error   { return nil }
func (pgTx) Rollback(context.Context) error { return nil }

// A function of the package that makes the policy of each call.
func policy() retry.Policy { return retry.Policy{Budget: &budget.Token{}} } // want `is new for each call`

func withPolicy(ctx context.Context) error  { return retry.Run(ctx, policy(), op) }
func withPolicy2(ctx context.Context) error { return retry.Run(ctx, policy().Named("2"), op) }

func once() retry.Policy { return retry.Policy{Budget: &budget.Token{}} }

var kept = once()

func withKept(ctx context.Context) error {
	_ = retry.Run(ctx, once(), op)
	return retry.Run(ctx, kept, op)
}

func Exported() retry.Policy { return retry.Policy{Budget: &budget.Token{}} }

func withExported(ctx context.Context) error { return retry.Run(ctx, Exported(), op) }

func unused() retry.Policy { return retry.Policy{Budget: &budget.Token{}} }

// Functions that are called for each call.
var wrongPerHost = retryhttp.Transport{
	Budget: func(string) retry.Budget { return &budget.Token{} }, // want `the function that makes this budget.Token is called for each call, so it is new each time: keep one in a variable, or one for each key in a retry.PerKey`
}

func forHost(string) retry.Budget { return &budget.Token{} } // want `the function that makes this budget.Token is called for each call`

var byName = retryhttp.Transport{Budget: forHost}

func later(tr *retryhttp.Transport) {
	tr.Budget = func(string) retry.Budget {
		b := &budget.Token{} // want `the function that makes this budget.Token is called for each call`
		return b
	}
	hosts := func(string) retry.Budget { return &budget.Token{} } // want `the function that makes this budget.Token is called for each call`
	tr.Budget = hosts
}

func edits(ctx context.Context) context.Context {
	return retryhttp.WithPolicy(ctx, func(p retry.Policy) retry.Policy {
		p.Budget = &budget.Token{} // want `the function that makes this budget.Token is called for each call`
		return p
	})
}

// Right.

var shared = &budget.Token{}

func right(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Budget: shared}, op)
}

func loop(ctx context.Context) {
	budget := &budget.Token{}
	for range 10 {
		_ = retry.Run(ctx, retry.Policy{Budget: budget}, op)
	}
}

func lazily(ctx context.Context) {
	var b *budget.Token
	for range 10 {
		if b == nil {
			b = &budget.Token{}
		}
		_ = retry.Run(ctx, retry.Policy{Budget: b}, op)
	}
}

func literal(ctx context.Context) func() error {
	p := retry.Policy{Budget: &budget.Token{}}
	return func() error { return retry.Run(ctx, p, op) }
}

func several(ctx context.Context) {
	p := retry.Policy{Budget: &budget.Token{}}
	_ = retry.Run(ctx, p, op)
	_ = retry.Run(ctx, p, op)
}

func handedOn(ctx context.Context, use func(retry.Budget)) error {
	budget := &budget.Token{}
	use(budget)
	return retry.Run(ctx, retry.Policy{Budget: budget}, op)
}

type service struct{ policy retry.Policy }

func newService() *service { return &service{policy: retry.Policy{Budget: &budget.Token{}}} }

func (s *service) configure(ctx context.Context) error {
	s.policy.Budget = &budget.Token{}
	return retry.Run(ctx, s.policy, op)
}

func namedResult() (p retry.Policy) {
	p.Budget = &budget.Token{}
	return
}

var rightPerHost = retryhttp.Transport{
	Budget: func(string) retry.Budget { return shared },
}

var hosts = retry.PerKey[budget.Token]{
	New: func(string) *budget.Token { return &budget.Token{Capacity: 10} },
}

var rightPerKey = retryhttp.Transport{
	Budget: func(host string) retry.Budget { return hosts.For(host) },
}

var byHost = map[string]*budget.Token{}

var remembers = retryhttp.Transport{
	Budget: func(host string) retry.Budget {
		b := byHost[host]
		if b == nil {
			b = &budget.Token{}
			byHost[host] = b
		}
		return b
	},
}

var hedges = hedge.Hedge{Budget: &budget.Token{}}
