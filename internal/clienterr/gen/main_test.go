package main

import (
	"bytes"
	"os"
	"testing"
)

func TestGeneratedFileIsUpToDate(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../tables.go"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("tables.go is not what the tables say (%v): run go generate ./internal/clienterr", err)
	}
}
