package oracle_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of CLIENTS.md anew")

// TestPage compares the table of codes in CLIENTS.md with the vendors' tables.
func TestPage(t *testing.T) {
	const page, begin, end = "../CLIENTS.md", "| codes of | clients |", "\n\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Fatalf("%s has no table that begins with %q", page, begin)
	}
	table, after, _ := strings.Cut(rest, end)
	var b strings.Builder
	b.WriteString(" number | repeated | later | never | source, version |\n|---|---|---|---|---|---|---|")
	names, tables := byVendor(t)
	for _, name := range names {
		if name == "conflicts" {
			continue
		}
		clients := ""
		for i, c := range vendors[name].clients {
			if i > 0 {
				clients += ", "
			}
			clients += c.name
		}
		for _, part := range tables[name] {
			var all, again, wait, not int
			for _, r := range part.Rows {
				all++
				switch group(r.Verdict) {
				case repeated:
					again++
				case later:
					wait++
				case never:
					not++
				}
			}
			fmt.Fprintf(&b, "\n| [%s](../internal/clienterr/oracle/%[1]s.tsv) | %s | %d | %d | %d | %d | %s |", part.Name, clients, all, again, wait, not, part.Version)
		}
	}
	if want := b.String(); table != want {
		if !*update {
			t.Fatalf("the table of codes in %s is not that of the vendors' tables: run this test with -update", page)
		}
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
