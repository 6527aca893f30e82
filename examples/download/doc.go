// Command download fetches a file over connections that break off, and goes on each
// time where it was:
//
//	go run ./examples/download
//	go run ./examples/download -size 1073741824 -break 104857600
//
// It starts the server itself, on a loopback port, and compares checksums. The bytes
// are made when they are read, on both sides: a gibibyte takes no memory.
package main
