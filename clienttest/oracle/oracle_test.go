package oracle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr/oracle"
)

// A score counts what became of the codes of one verdict.
type score struct{ right, unknown, wrong int }

func (s score) String() string {
	all := s.right + s.unknown + s.wrong
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d (%d unknown, %d wrong)", s.right, all, s.unknown, s.wrong)
}

// repeated, later and never are the groups that are counted.
const (
	repeated = "retry, doc"
	later    = "throttle"
	never    = "never, no"
)

func group(verdict string) string {
	switch verdict {
	case "retry", "doc":
		return repeated
	case "throttle":
		return later
	case "never", "no":
		return never
	}
	return ""
}

// agrees reports whether a class is what the vendor's verdict stands for.
func agrees(verdict string, c retry.Class) bool {
	switch group(verdict) {
	case repeated:
		return c != retry.Unknown && c != retry.Permanent
	case later:
		return c == retry.Throttled
	case never:
		return c == retry.Permanent
	}
	return true
}

func (s *score) add(verdict string, c retry.Class) {
	switch {
	case agrees(verdict, c):
		s.right++
	case c == retry.Unknown:
		s.unknown++
	default:
		s.wrong++
	}
}

// byVendor returns the tables, those of one vendor together.
func byVendor(t testing.TB) (names []string, tables map[string][]*oracle.Table) {
	all, err := oracle.Tables()
	if err != nil {
		t.Fatal(err)
	}
	tables = map[string][]*oracle.Table{}
	for _, table := range all {
		name := table.Vendor()
		if tables[name] == nil {
			names = append(names, name)
		}
		tables[name] = append(tables[name], table)
	}
	return names, tables
}

// judged returns the class of err. A run without other settings would take Unknown for
// Transient.
func (v vendor) judged(err error) retry.Class {
	return retry.Classifiers(v.classify, retry.DefaultClassifier)(err)
}

// TestMeasure prints what is known of each vendor's codes: go test -v -run Measure.
func TestMeasure(t *testing.T) {
	names, tables := byVendor(t)
	total := map[string]*score{repeated: {}, later: {}, never: {}}
	for _, name := range names {
		v, ok := vendors[name]
		if !ok {
			t.Logf("%-12s has no client", name)
			continue
		}
		sums := map[string]*score{repeated: {}, later: {}, never: {}}
		var wrong []string
		for table, all := range samples(t, tables[name]) {
			for _, s := range all {
				g := group(s.row.Verdict)
				for _, c := range v.clients {
					err := c.make(s)
					if err == nil || g == "" {
						continue
					}
					class := v.judged(err)
					sums[g].add(s.row.Verdict, class)
					total[g].add(s.row.Verdict, class)
					if !agrees(s.row.Verdict, class) {
						wrong = append(wrong, fmt.Sprintf("%s %s %s: %v, %s says %s", table.Name, s, s.name, class, c.name, s.row.Verdict))
					}
				}
			}
		}
		t.Logf("%-12s retry %v, throttle %v, never %v", name, sums[repeated], sums[later], sums[never])
		if len(wrong) > 0 {
			t.Logf("\t%s", strings.Join(wrong, "\n\t"))
		}
	}
	t.Logf("%-12s retry %v, throttle %v, never %v", "all", total[repeated], total[later], total[never])
}
