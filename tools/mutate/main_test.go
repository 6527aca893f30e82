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
	if n < 0 {
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
}

func TestSaysWhichChangesNoTestNotices(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOWORK", "off")
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(&out, dir, "", "Memory", "", 50, 2); err != nil {
		t.Errorf("with a score of 50 %% wanted: %v\n%s", err, &out)
	}
	var survivors []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "shop.go: ") {
			survivors = append(survivors, line)
		}
	}
	if err := run(new(strings.Builder), dir, "shop.go", "Memory", "", 99.9, 2); err == nil {
		t.Error("with a score of 99.9 % wanted: no error")
	}
	known := filepath.Join(dir, "known")
	list := "# nobody asks for them\n\n" + strings.Join(survivors, "") + "shop.go: gone: 1 → 2\n"
	if err := os.WriteFile(known, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	var second strings.Builder
	if err := run(&second, dir, "", "Memory", known, 100, 2); err != nil {
		t.Errorf("with all survivors known: %v", err)
	}
	if !strings.Contains(second.String(), "no survivor any more: shop.go: gone: 1 → 2\n") ||
		strings.Count(second.String(), "shop.go") != 1 {
		t.Errorf("with all survivors known it says\n%s, want one that is gone", &second)
	}
	for _, want := range []string{"n < 0 → n <= 0", "n > 10 → n >= 10"} {
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
