// Package ledgerpb is the service of a ledger, generated from ledger.proto by
//
//	./examples/generate examples/payments/ledgerpb/ledger.proto
package ledgerpb
