package oracle_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
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
	b.WriteString(" number | repeated | later | never | unlisted | source, version |\n|---|---|---|---|---|---|---|---|")
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
		unlisted := ""
		if vendors[name].clients != nil && !standards[name] {
			if sum, _ := forgotten(t, name, tables[name]); sum != (score{}) {
				unlisted = fmt.Sprintf("%d %%", 100*sum.right/(sum.right+sum.unknown+sum.wrong))
			}
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
			fmt.Fprintf(&b, "\n| [%s](../internal/clienterr/oracle/%[1]s.tsv) | %s | %d | %d | %d | %d | %s | %s |", part.Name, clients, all, again, wait, not, unlisted, part.Version)
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

// nobodys are names in the tables that are not those of client libraries, or second names of one.
const nobodys = `|net|syscall|net/smtp|crypto/tls|retryhttp|streams|connections|commands|writes|errors.new|errorcode int|` +
	"its api|google drive and the like|and others with `errorcode int`|" +
	"amqp's links|dynamodb's transactions|gokrb5's client|trino-go-client's rows|sourcegraph/jsonrpc2|x/crypto's ssh|"

// The README says of how many clients the errors are known.
func TestNumberOfClients(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "the errors of over a hundred [client libraries]") {
		t.Fatal("the README does not say of how many clients the errors are known")
	}
	page, err := os.ReadFile("../CLIENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	clients := map[string]bool{}
	for _, table := range []struct {
		begin  string
		column int
	}{{"| client, version | read by |", 1}, {"| codes of | clients |", 2}} {
		_, rows, _ := strings.Cut(string(page), table.begin)
		rows, _, _ = strings.Cut(rows, "\n\n")
		for _, row := range strings.Split(rows, "\n")[2:] {
			cell := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(strings.Split(row, "|")[table.column], "")
			for name := range strings.SplitSeq(cell, ", ") {
				name, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(name)), " v")
				name = strings.TrimPrefix(strings.TrimSuffix(name, "-go"), "go-")
				if name != "" && !strings.Contains(nobodys, "|"+name+"|") {
					clients[name] = true
				}
			}
		}
	}
	if n := len(clients); n <= 100 || n > 120 {
		t.Errorf("there are %d clients: %v", n, slices.Sorted(maps.Keys(clients)))
	}
}
