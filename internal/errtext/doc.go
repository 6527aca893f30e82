// Package errtext decides what may be told of an error: in a span, on a page,
// wherever people read it whom the error was not made for.
//
// [Of] returns its text without the secrets of URLs, with each inner run described
// by its reason and its last error. [OfRun] does the same for the error of a run.
// These texts may be of any length: cut them with [Clip] or [Line], and only then,
// because a cut can hide from Of where a secret begins. [Failed] decides whether an
// attempt's error counts as a failure at all.
//
// The methods of an error are someone else's. A panic in one does not leave this
// package, a nil pointer has none that are called, and the work is linear in the
// number of errors and in their texts. Nothing here keeps an error or a text.
package errtext
