// Package storm shows what a retry policy does to a service before production
// does: how many requests a thousand clients make of a two-second outage, and
// whether the server survives them.
//
//	r := storm.Service{
//		Clients:  1000,
//		Rate:     200,
//		Capacity: 250,
//		Timeout:  time.Second,
//		Outages:  []storm.Outage{{From: 10 * time.Second, To: 12 * time.Second}},
//	}.Run(policy)
//
// A [Service] is clients, a network and a server, simulated as discrete events in
// virtual time. The policies are the library's own: each call is a [retry.Loop],
// and this package has no formula for a backoff, a budget or a decision. The same
// seed gives the same result on every machine.
//
// [Contention], [Amplification], [Collapse], [Herd] and [Layers] are experiments
// with known results; docs/storms.md compares. The command retrysim is all of this in a terminal.
//
// What may live here: models of who calls and who is called, and what is measured
// of them. What decides about a retry belongs to package retry, what draws a
// picture to cmd/retrysim.
package storm
