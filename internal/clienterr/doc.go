// Package clienterr knows the meaning of popular client libraries' errors: by fields
// that many of them have, by methods, and by tables of types and codes. It imports none of
// these libraries, and not net/http.
//
// What a code means stands in oracle, in a table of its vendor, and nowhere else: its class,
// whether a new session mends it, whether the call's content is to blame, and whether a
// transaction was rolled back. These are the Facts. Where the errors of a client have a code
// stands in oracle/types.txt, as rules. clienttest makes real errors of all codes, and
// clienttest/CLIENTS.md names the clients.
//
// It looks at single errors. Package retry walks their trees, and decides which rule
// goes first.
//
// Much of this is tested with real errors: in package retry, and in clienttest.
//
// Of returns how to read the errors of a type, which resolve has found out once, from the rules
// for it, its methods, and its fields. Read reads one error so.
package clienterr

//go:generate go run ./gen
