package retryhttp

import "github.com/goretry/retry"

// BudgetPerHost returns the For of [retry.Budgets] whose New is fresh, for Transport.Budget.
// To a [Transport] "example.com", "example.com:443" and "example.com." are one host. If
// you call the func yourself, it compares strings. To list or observe the budgets, declare
// the Budgets in place of this.
func BudgetPerHost(fresh func() retry.Budget) func(host string) retry.Budget {
	return (&retry.Budgets{New: func(string) retry.Budget { return fresh() }}).For
}
