// Package examples is the module of the programs a newcomer runs.
package examples
