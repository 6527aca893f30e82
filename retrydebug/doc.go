// Package retrydebug serves a page that shows what retries do in this process: what
// fails and why, what runs or waits now, and how the last runs failed. It is for
// engineers without dashboards, or whose dashboards do not show the current minute.
//
//	var page retrydebug.Recorder
//
//	policy.Hooks = page.Hooks() // beside others: retry.JoinHooks
//	http.Handle("/debug/retry", &page)
//
// By Policy.Name the page has counts of the last ten seconds, the last minute and the
// last hour. It shows which calls wait now, until when, and after which error; the
// budgets, limits and hedges that it observes; and the last runs that failed, with
// each attempt and each wait.
//
// With ?format=json it returns the same data as JSON. docs/debug.md describes
// the fields. Later versions only add fields.
//
// Recorder.Allow decides who may see the page. By default only requests from this
// machine may. The page shows the texts of errors, and URLs in them without userinfo,
// query and fragment. Importing the package registers nothing.
package retrydebug
