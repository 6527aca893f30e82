package retryconf

import (
	"cmp"
	"sync"

	"github.com/goretry/retry"
)

// A key names a budget of this process.
type key struct{ owner, text string }

// budgets are those that texts have named. owners has the name of each.
var budgets = struct {
	sync.Mutex
	byKey  map[key]retry.Budget
	owners map[retry.Budget]string
}{byKey: map[key]retry.Budget{}, owners: map[retry.Budget]string{}}

// shared returns the process's budget of the kind and with the arguments that p's has.
// owner is the name after the @, or "": then it is p's. Without either it is p's own.
func shared(p retry.Policy, owner string) retry.Budget {
	owner = cmp.Or(owner, p.Name)
	if p.Budget == nil || owner == "" {
		return p.Budget
	}
	k := key{owner, writeKind(p.Budget, p.Budget)}
	budgets.Lock()
	defer budgets.Unlock()
	b, ok := budgets.byKey[k]
	if !ok {
		b = p.Budget
		budgets.byKey[k], budgets.owners[b] = b, owner
	}
	return b
}

// owner returns the name to write after p's budget, which is of a kind that has a text:
// "" for a budget that was not made by a text, or that has the policy's name.
func owner(p retry.Policy) string {
	budgets.Lock()
	defer budgets.Unlock()
	if name := budgets.owners[p.Budget]; name != p.Name {
		return name
	}
	return ""
}
