// Package oracle compares what the library says of real clients' errors with what the
// clients' vendors say: the tables of internal/clienterr/oracle.
package oracle
