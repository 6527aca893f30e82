package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A package whose tests never ask for the price of 0 or 10 pieces.
var files = map[string]string{
	"go.mod": "module example.com/shop\n\ngo 1.26\n",
	"shop.go": `package shop

import "errors"

type Cents int

var sold int

// Price returns what n pieces cost.
func Price[T ~int](n T) (Cents, error) {
	const each = 20
	if n < 0 { // there is nothing // to pay
		return 0, errors.New("negative")
	}
	sold++
	sum := Cents(n) * each
	if big := n > 10; big && sum > 0 {
		sum -= 50
	}
	return sum, nil
}
`,
	"shop_test.go": `package shop

import "testing"

func TestPrice(t *testing.T) {
	for n, want := range map[int]Cents{1: 20, 2: 40, 9: 180, 12: 190} {
		if got, err := Price(n); got != want || err != nil {
			t.Errorf("Price(%d) = %d, %v, want %d", n, got, err, want)
		}
	}
	if _, err := Price(-1); err == nil {
		t.Error("a negative number has a price")
	}
	if sold != 4 {
		t.Errorf("sold %d, want 4", sold)
	}
}

func TestThatFailsByItself(t *testing.T) { t.Error("always") }
`,
	"till/till_test.go": `package till

import (
	"testing"

	"example.com/shop"
)

func TestTen(t *testing.T) {
	if got, _ := shop.Price(10); got != 200 {
		t.Errorf("Price(10) = %d, want 200", got)
	}
}
`,
}

func TestSaysWhichChangesNoTestNotices(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOWORK", "off")
	if err := os.Mkdir(filepath.Join(dir, "till"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options{dir: dir, skip: "Memory", least: 50, parallel: 2}
	var out strings.Builder
	if err := run(&out, o); err != nil {
		t.Errorf("with a score of 50 %% wanted: %v\n%s", err, &out)
	}
	var survivors []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "shop.go: ") {
			name, _, _ := strings.Cut(line, " (line ")
			survivors = append(survivors, name+"\n")
		}
	}
	o.files, o.least = []string{"shop.go"}, 99.9
	if err := run(new(strings.Builder), o); err == nil {
		t.Error("with a score of 99.9 % wanted: no error")
	}
	o.known, o.least = filepath.Join(dir, "known"), 100
	known := func(lines string) {
		t.Helper()
		if err := os.WriteFile(o.known, []byte("# nobody asks for them\n\n"+lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := strings.Join(survivors, "")
	known(all + "shop.go: sold++: without sold++\nother.go: return: 1 → 2\n")
	var dies strings.Builder
	if err := run(&dies, o); err != nil {
		t.Errorf("with all survivors known: %v", err)
	}
	if !strings.Contains(dies.String(), "\nno survivor any more: shop.go: sold++: without sold++\n") || strings.Count(dies.String(), ".go: ") != 1 {
		t.Errorf("with all survivors known, and one that dies, it says\n%s", &dies)
	}
	known(all + "shop.go: gone: 1 → 2\n")
	var gone strings.Builder
	if err := run(&gone, o); err == nil || !strings.Contains(gone.String(), "\nno mutant any more: shop.go: gone: 1 → 2\n") {
		t.Errorf("with a line that names no mutant: %v\n%s", err, &gone)
	}
	o.known, o.least, o.tests = "", 0, []string{filepath.Join(dir, "till")}
	var second strings.Builder
	if err := run(&second, o); err != nil {
		t.Errorf("with the tests of another package: %v", err)
	}
	if strings.Contains(second.String(), "n > 10 → n >= 10") || !strings.Contains(second.String(), "n < 0 → n <= 0") {
		t.Errorf("with the tests of another package it says\n%s", &second)
	}
	for _, want := range []string{"if n < 0 {: n < 0 → n <= 0", "n > 10 → n >= 10"} {
		if !strings.Contains(strings.Join(survivors, "\n"), want) {
			t.Errorf("%q is not among the survivors", want)
		}
	}
	for _, caught := range []string{"!(n < 0)", "without sold++", "sold++ → sold--", "sum -= 50 → sum += 50", "Cents(n) / each", "!(n > 10)"} {
		if strings.Contains(strings.Join(survivors, "\n"), caught) {
			t.Errorf("%q is among the survivors", caught)
		}
	}
	if t.Failed() {
		t.Log("\n" + out.String())
	}
}
