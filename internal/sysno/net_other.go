//go:build !linux

package sysno

var linux []Known
