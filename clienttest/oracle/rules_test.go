package oracle_test

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goretry/retry/internal/clienterr/oracle"
)

// A typ is a type of errors.
type typ struct{ pkg, name string }

// rules returns the types of each line of types.txt with a table.
func rules(t *testing.T) (all [][]typ) {
	lines, err := oracle.Types()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		var types []typ
		for _, pkg := range line.Packages {
			for _, name := range line.Names {
				types = append(types, typ{pkg, name})
			}
		}
		for _, rule := range line.Rules {
			if rule.Table != "" {
				all = append(all, types)
			}
		}
	}
	return all
}

// made adds the types of err's tree to seen, and their packages.
func made(seen map[typ]bool, err error) {
	if err == nil {
		return
	}
	of := reflect.TypeOf(err)
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	var parts []string
	for part := range strings.SplitSeq(of.PkgPath(), "/") {
		if _, err := strconv.Atoi(strings.TrimPrefix(part, "v")); err != nil || part == "v1" {
			parts = append(parts, part)
		}
	}
	pkg := strings.Join(parts, "/")
	seen[typ{pkg, of.Name()}], seen[typ{pkg, ""}] = true, true
	if e, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range e.Unwrap() {
			made(seen, err)
		}
	}
	made(seen, errors.Unwrap(err))
}

// TestRulesHaveClients checks that each rule with a table has a client that makes an error of one
// of its types. The others are older or newer names of the same.
func TestRulesHaveClients(t *testing.T) {
	seen := map[typ]bool{
		{"github.com/mattn/go-sqlite3", "Error"}:           true, // servertest/sql has its drivers
		{"modernc.org/sqlite", "Error"}:                    true,
		{"github.com/duckdb/duckdb-go", "Error"}:           true, // TestDuckDB in internal/clienterr: its database is linked as a library
		{"github.com/go-acme/lego/acme", "ProblemDetails"}: true, // TestWords in internal/clienterr
	}
	names, tables := byVendor(t)
	for _, name := range names {
		for _, all := range samples(t, tables[name]) {
			for _, s := range all {
				for _, c := range vendors[name].clients {
					made(seen, c.make(s))
				}
			}
		}
	}
	all := rules(t)
	if len(all) < 80 {
		t.Errorf("types.txt has %d rules with a table", len(all))
	}
	for _, types := range all {
		if !slices.ContainsFunc(types, func(r typ) bool { return seen[r] }) {
			t.Errorf("no client makes an error of a rule for %v", types)
		}
	}
}
