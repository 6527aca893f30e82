// Package clients has no code: its tests call real client libraries, with their own
// retries off, and check what package retry makes of their errors. A client may rename
// an unexported field in any version. Then a test here fails.
//
// This module is not in go.work. Its clients would raise the versions of the
// modules with which all others are tested. Run it by itself:
//
//	cd clienttest/clients && GOWORK=off go test .
package clients
