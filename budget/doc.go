// Package budget has budgets for a [retry.Policy] with other rules than
// [retry.EarnedBudget]. Use that one unless you know better:
//
//   - [Ratio], if you must state a limit on the extra load;
//   - [Token], if clients must behave like the AWS SDKs.
//
// Share one among all calls to the same part of a system:
//
//	var search budget.Ratio // in a package variable
//
//	p := retry.Policy{Budget: &search}
//
// [retry.PerKey] has one for each host or shard. The zero values are ready, and a nil pointer
// grants everything. Set the fields before the first use, and do not copy a budget after it.
// All are safe for concurrent use. Balance returns what is left, in [0,1], and Price what a retry
// costs and how many tokens are left: see [retry.Budget].
//
// docs/storms.md of the repository compares them in simulated outages.
package budget
