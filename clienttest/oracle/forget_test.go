package oracle_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/clienterr/oracle"
	"github.com/goretry/retry/retryhttp"
)

// standards are tables that say what the codes of a protocol mean, whoever sends them.
var standards = map[string]bool{"errno": true, "http": true, "sqlstate": true, "tlsalert": true, "texts": true, "words": true}

// forgotten returns how much is known of a vendor's codes by what the errors of all vendors have in
// common, after its table and the rules of its types were forgotten: nobody has listed the next
// vendor either. It is an estimate, since words.tsv was written with all tables in view.
func forgotten(t testing.TB, name string, tables []*oracle.Table) (sum score, wrong []string) {
	defer clienterr.Forget(name)()
	for table, all := range samples(t, tables) {
		for _, s := range all {
			facts, err := s.row.Facts()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range vendors[name].clients {
				err := c.make(s)
				if err == nil || group(s.row.Verdict) == "" {
					continue
				}
				class := retry.DefaultClassifier(err)
				sum.add(s.row.Verdict, class)
				if facts.Class == "permanent" && class != retry.Permanent && class != retry.Unknown && !told(s, class) {
					wrong = append(wrong, table.Name+" "+s.String()+" of "+c.name+" is "+class.String())
				}
			}
		}
	}
	return sum, wrong
}

// told reports whether the status of s, or its SQLSTATE, says class.
func told(s sample, class retry.Class) bool {
	return s.status != 0 && retry.DefaultClassifier(&retryhttp.StatusError{Code: s.status}) == class ||
		sqlstate(s.word) && retry.DefaultClassifier(stater(s.word)) == class
}

type stater string

func (s stater) Error() string    { return string(s) }
func (s stater) SQLState() string { return string(s) }

// TestForgottenVendors shows that errors of vendors whom nobody has listed are not repeated if they
// must not be: what general rules call repeatable is so in all tables.
func TestForgottenVendors(t *testing.T) {
	names, tables := byVendor(t)
	all := score{}
	for _, name := range names {
		if standards[name] || vendors[name].clients == nil {
			continue
		}
		sum, wrong := forgotten(t, name, tables[name])
		for _, s := range wrong {
			t.Errorf("%s, and must not be repeated", s)
		}
		t.Logf("%-14s %v", name, sum)
		all.right, all.unknown, all.wrong = all.right+sum.right, all.unknown+sum.unknown, all.wrong+sum.wrong
	}
	t.Logf("%-14s %v", "all", all)
	figure := fmt.Sprintf("%d %% of the errors", 100*all.right/(all.right+all.unknown+all.wrong))
	page, err := os.ReadFile("../CLIENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), figure) {
		t.Errorf("CLIENTS.md does not say that %s are right", figure)
	}
}
