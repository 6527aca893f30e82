// Package queues shows how package retryqueue goes with queues that this repository has
// no module for: what each of them counts, which clock it gives, and where its limits
// are. Copy what you need.
//
//	go test ./examples/queues
//
// Its tests are tests of the mappings on fakes of the clients. One more shows what
// OpenTelemetry sees of package retrynats.
package queues
