// Command download fetches a file over connections that break off, and continues after
// each break:
//
//	go run ./examples/download
//	go run ./examples/download -size 1073741824 -break 104857600
//
// It starts the server itself, on a loopback port, and compares checksums. The bytes
// are generated when they are read, on both sides, so a gibibyte takes no memory.
package main
