// Package clients has no code: its tests call real client libraries, with their own
// retries off, and check what package retry makes of their errors. A client may rename
// an unexported field in any version. Then a test here fails. CLIENTS.md, one folder up,
// says which clients and codes are tested. Another test counts the requests of a call, with
// the clients' own retries and without.
package clients
