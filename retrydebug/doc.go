// Package retrydebug serves a page that shows what retries do in this process: what
// fails and why, what runs or waits now, and how the last runs failed. It is for the
// engineer who has no dashboards, or none that tell what happens this minute.
//
//	var page retrydebug.Recorder
//
//	policy.Hooks = page.Hooks() // beside others: retry.JoinHooks
//	http.Handle("/debug/retry", &page)
//
// The page has counts of the last ten seconds, the last minute and the last hour by
// Policy.Name, and budgets, limits and hedges that it is given. Unlike counters, it
// shows the waits: which calls sleep now, until when, and after which error. And it
// has the last runs that failed, with each attempt and each wait.
//
// With ?format=json it is the same as JSON. The fields are in docs/observability.md;
// later versions only add to them.
//
// Who may see the page is decided by Recorder.Allow; by default only this machine
// may. Of errors it shows the text, without what URLs hold beside the place that
// they lead to. Importing the package registers nothing.
package retrydebug
