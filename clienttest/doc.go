// Package clienttest is the module of the tests that call real client libraries, against
// local servers. It has no code.
//
// It is not in go.work. Its clients would raise the versions of the modules with which
// all others are tested. Run it by itself:
//
//	cd clienttest && GOWORK=off go test ./...
package clienttest
