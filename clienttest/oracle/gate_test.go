package oracle_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/clienterr/oracle"
	"github.com/goretry/retry/retryqueue"
	"github.com/goretry/retry/retrysql"
)

var raise = flag.Bool("raise", false, "raise floors.tsv to what is right now")

// contradicts reports whether class is not what the vendor's verdict stands for. Where a
// vendor does not say, nothing is.
func contradicts(verdict string, class retry.Class) bool {
	if verdict == "renew" {
		return class != retry.Permanent
	}
	return !agrees(verdict, class)
}

// again reports whether Supervise calls an op again that fails with err.
func again(t testing.TB, classify retry.Classifier, err error) bool {
	calls := 0
	p := retry.Policy{MaxAttempts: 2, Classify: classify, Backoff: retry.Constant(0), Clock: &clockx.Virtual{}, MaxRetryAfter: time.Hour}
	_ = retry.Supervise(t.Context(), p, 0, func(context.Context) error { calls++; return err })
	return calls > 1
}

// inTx reports whether TxOf begins another transaction after one whose statement fails with err.
func inTx(t testing.TB, classify retry.Classifier, err error) bool {
	begun := 0
	p := retry.Policy{NonIdempotent: true, MaxAttempts: 2, Classify: classify, Backoff: retry.Constant(0), Clock: &clockx.Virtual{}, MaxRetryAfter: time.Hour}
	_, _ = retrysql.TxOf(t.Context(), p, func(context.Context) (*server, error) { begun++; return &server{}, nil },
		func(context.Context, *server) (struct{}, error) { return struct{}{}, err })
	return begun > 1
}

// dies reports whether a queue lets a message die at its first delivery.
func dies(classify retry.Classifier, err error) bool {
	d := retryqueue.Delivery{Number: 1}.After(retry.Policy{Classify: classify}, err)
	return d.Action == retryqueue.Dead
}

// TestVendorsCodes makes the real error of each client for each code of each vendor, and
// compares what Do, Supervise, a transaction and a queue make of it with the facts that the vendor's table
// has. Where these contradict the vendor's own verdict, explained.tsv has to say why.
func TestVendorsCodes(t *testing.T) {
	explanations, err := oracle.Explained()
	if err != nil {
		t.Fatal(err)
	}
	explained := map[[2]string]bool{} // true once it is needed
	for _, e := range explanations {
		explained[[2]string{e.Table, e.Code}] = false
	}
	floors := readFloors(t)
	right := map[string]int{}
	names, tables := byVendor(t)
	for _, name := range names {
		v, ok := vendors[name]
		if !ok {
			if elsewhere[name] == "" {
				t.Errorf("%s.tsv has no client", name)
			}
			continue
		}
		for table, all := range samples(t, tables[name]) {
			for _, s := range all {
				facts, err := s.row.Facts()
				if err != nil {
					t.Fatal(err)
				}
				needed, made := false, false
				for _, c := range v.clients {
					err := c.make(s)
					if err == nil {
						continue
					}
					made = true
					class := v.judged(err)
					if contradicts(s.row.Verdict, class) {
						needed = true
					} else {
						right[name]++
					}
					follows := table.Under != "" && s.row.Given == "" || facts.Class == "unknown"                                        // the status decides
					if want := facts.Class; class.String() != want && !follows && !(want == "unprocessed" && class == retry.Transient) { // something around it proves nothing
						t.Errorf("%s %s: %s is %v to Do, want %s", table.Name, s, c.name, class, want)
					}
					permanent := class == retry.Permanent
					if got, want := again(t, v.classify, err), !permanent || facts.Session; got != want && !(follows && !permanent) {
						t.Errorf("%s %s: %s is repeated by Supervise: %t, want %t", table.Name, s, c.name, got, want)
					}
					if got, want := inTx(t, v.classify, err), !permanent || facts.Session; got != want && !(follows && !permanent) {
						t.Errorf("%s %s: %s is repeated by TxOf: %t, want %t", table.Name, s, c.name, got, want)
					}
					if got, want := dies(v.classify, err), permanent && facts.Message; got != want && !follows {
						t.Errorf("%s %s: %s lets a message die: %t, want %t", table.Name, s, c.name, got, want)
					}
				}
				if !made {
					t.Errorf("%s %s: no client makes an error of it", table.Name, s)
				}
				if !needed {
					continue
				}
				key := [2]string{table.Name, s.row.Code}
				if _, ok := explained[key]; !ok {
					t.Errorf("%s %s contradicts its verdict, %s, and explained.tsv does not say why", table.Name, s, s.row.Verdict)
				}
				explained[key] = true
			}
		}
	}
	for key, needed := range explained {
		if !needed {
			t.Errorf("explained.tsv: %s %s explains nothing", key[0], key[1])
		}
	}
	if *raise {
		writeFloors(t, right)
		return
	}
	for name, n := range right {
		t.Logf("%-12s %d errors are judged as the vendor says", name, n)
	}
	for name, floor := range floors {
		if right[name] < floor {
			t.Errorf("%s: %d errors are judged as the vendor says, want %d: floors only rise, by -raise", name, right[name], floor)
		}
	}
}

// elsewhere are tables that other tests are for.
var elsewhere = map[string]string{
	"conflicts": "TestConflicts",
	"duckdb":    "TestCodes in internal/clienterr, since its database is linked as a library",
	"sqlite":    "servertest/sql, since its drivers take a minute to build",
	"words":     "TestForgottenVendors",
}

const floorsFile = "testdata/floors.tsv"

func readFloors(t *testing.T) map[string]int {
	f, err := os.Open(floorsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	floors := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, count, _ := strings.Cut(lines.Text(), "\t")
		if floors[name], err = strconv.Atoi(count); err != nil {
			t.Fatal(err)
		}
	}
	return floors
}

func writeFloors(t *testing.T, right map[string]int) {
	var b strings.Builder
	floors := readFloors(t)
	for _, name := range slices.Sorted(maps.Keys(right)) {
		if right[name] < floors[name] {
			t.Errorf("%s: %d, less than %d: edit %s, and say why", name, right[name], floors[name], floorsFile)
		}
		fmt.Fprintf(&b, "%s\t%d\n", name, right[name])
	}
	if !t.Failed() {
		if err := os.WriteFile(floorsFile, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
