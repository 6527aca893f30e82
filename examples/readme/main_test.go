package main

import "testing"

func TestReadme(t *testing.T) {
	if err := run(t.Context()); err != nil {
		t.Error(err)
	}
}
