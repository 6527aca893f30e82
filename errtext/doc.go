// Package errtext decides which text of an error may be shown to people for whom the
// error was not made: in a span, in a log, on a page. It is for [retry.Hooks].
//
// [Of] returns its text without the secrets of URLs, with each inner run described by
// its reason and its last error. These
// texts may be of any length. Cut them afterwards: a cut before can hide from Of where a
// secret starts.
//
// The methods of an error are code of others. A panic in one does not leave this
// package, methods of nil pointers are not called, and the work is linear in the
// number of errors and in their texts. This package keeps no error and no text. It is
// safe for concurrent use.
package errtext
