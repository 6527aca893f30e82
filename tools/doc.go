// Package tools is the module of what builds and checks the library: the
// versions of the tools that .ci/gate uses, and small programs of our own, each in
// a directory of its own.
package tools
