// Package examples is the module of the programs a newcomer runs, such as
//
//	go run ./examples/quickstart
//
// from the root of the repository. The first of these show one thing each:
//
//	quickstart  fourteen HTTP calls to a server that fails on purpose
//	grpc        a dozen gRPC calls
//	bank        transactions that conflict
//	tail        hedges
//	download    a download that goes on where it broke off
//	quota       fifty goroutines on one quota, without and with a pace
//	outbox      messages about what was stored, by a service that crashes
//	durable     jobs on NATS that outlive their consumer and a server
//	observed    a service with metrics, logs and traces
//	controller  the work queue of a Kubernetes controller
//	chaos       faults that are injected into attempts
//	payments    four services on PostgreSQL, Redis and NATS, parts of which die
//
// adapter, faq, guards, migrate, queues, readme, telemetry and tracedhttp have the code of
// the guides.
package examples
