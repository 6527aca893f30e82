// Package clienterr knows the meaning of popular client libraries' errors: by fields
// that many of them have, by marker methods, and by tables of types and codes. It
// imports none of these libraries, and not net/http.
//
// It looks at single errors. Package retry walks their trees, and decides which rule
// goes first.
package clienterr
