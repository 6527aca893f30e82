// Package clienterr knows what the errors of popular client libraries say: by
// fields that many of them have, by methods that only have a name, and by tables of
// types and codes. It imports none of these libraries and does not import net/http.
//
// It looks at single errors: package retry walks through their trees, and decides
// what goes before what.
package clienterr
