// Package errtext is for whoever writes [retry.Hooks] for another telemetry system. It says
// of a failed attempt what a span, a log or a page may show to people for whom its error was
// not made.
//
// [Failed] reports whether an attempt failed at all. [Code] returns a code to count its
// failure by. [Of] returns the text of an error without the secrets of URLs, with each
// inner run described by its reason and its last error. Codes and texts may be of any
// length. Cut a text afterwards: a cut before can hide from Of where a secret starts.
//
// The methods of an error are code of others. A panic in one does not leave this
// package, methods of nil pointers are not called, and the work is linear in the
// number of errors and in their texts. This package keeps no error and no text. It is
// safe for concurrent use.
package errtext
