package retryhttp

import (
	"sync"

	"github.com/goretry/retry"
)

// maxHosts is how many hosts of [BudgetPerHost] have a budget of their own. It is
// bounded because servers can name hosts, in redirects.
const maxHosts = 1024

// BudgetPerHost returns a func for Transport.Budget that gives each host a budget of
// its own, which fresh makes at the first use. There are at most 1024 of them. All
// later hosts share one more. To a [Transport] "example.com", "example.com:443" and
// "example.com." are one host. If you call the func yourself, it compares strings. A
// nil fresh, or nil from it, means Policy.Budget. The func is safe for concurrent use,
// and calls fresh once at a time.
func BudgetPerHost(fresh func() retry.Budget) func(host string) retry.Budget {
	if fresh == nil {
		return func(string) retry.Budget { return nil }
	}
	var (
		budgets sync.Map // of host
		mu      sync.Mutex
		hosts   int
		others  retry.Budget
		shared  bool // others is made
	)
	return func(host string) retry.Budget {
		if b, ok := budgets.Load(host); ok {
			b, _ := b.(retry.Budget) // or nil
			return b
		}
		mu.Lock()
		defer mu.Unlock()
		if b, ok := budgets.Load(host); ok {
			b, _ := b.(retry.Budget)
			return b
		}
		if hosts == maxHosts {
			if !shared {
				others, shared = fresh(), true
			}
			return others
		}
		b := fresh()
		budgets.Store(host, b)
		hosts++
		return b
	}
}
