// Package clienterr knows the meaning of popular client libraries' errors: by fields
// that many of them have, by marker methods, and by tables of types and codes. It
// imports none of these libraries, and not net/http.
//
// A new client begins with a row of rules in types.go. clienttest/clients calls it for real,
// and clienttest/CLIENTS.md names it.
//
// It looks at single errors. Package retry walks their trees, and decides which rule
// goes first.
package clienterr
