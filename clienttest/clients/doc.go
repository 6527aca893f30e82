// Package clients has no code: its tests call real client libraries, with their own
// retries off, and check what package retry makes of their errors. A client may move
// an unexported field in any version: then a test here says so.
//
// This module is not in go.work. Its clients would raise the versions of the
// modules with which all others are tested. Run it by itself:
//
//	cd clienttest/clients && GOWORK=off go test .
package clients
