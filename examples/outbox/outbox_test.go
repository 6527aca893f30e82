package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// The service that the program starts is this binary.
func TestMain(m *testing.M) {
	if !actAsService() {
		os.Exit(m.Run())
	}
}

func TestEveryOrderIsToldOf(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out); err != nil {
		t.Errorf("run() = %v", err)
	}
	for _, want := range []string{
		"the service dies after COMMIT:        10 orders stored,  0 told of, 10 messages in the outbox\n",
		"the service dies never:               18 orders stored, 18 told of,  0 messages in the outbox\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.String())
		}
	}
}

// The count at the end fails for each way in which an outbox can be wrong.
func TestCheck(t *testing.T) {
	path := t.TempDir() + "/orders.db"
	db, err := open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for id := range 18 {
		if _, err := db.Exec("INSERT INTO orders VALUES ($1, 'x')", id+1); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		edit func(accepted map[string]int)
		want string
	}{
		{"as it should be", func(a map[string]int) { a["order-3"]++ }, ""},
		{"one is lost", func(a map[string]int) { delete(a, "order-7") }, "nobody was told of the orders [7]"},
		{"one was rolled back", func(a map[string]int) { a["order-19"]++ }, "19 orders were told of, and 18 are stored"},
		{"none comes twice", func(map[string]int) {}, "no message came twice"},
	} {
		b := &broker{accepted: map[string]int{}}
		for id := range 18 {
			b.accepted[fmt.Sprint("order-", id+1)] = 1
		}
		tt.edit(b.accepted)
		err := b.check(t.Context(), io.Discard, path)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: check() = %v, want %q", tt.name, err, tt.want)
		}
	}
}
