package oracle_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/goretry/retry/internal/clienterr/oracle"
)

// A sample is one error that a row of a table is for.
type sample struct {
	row     oracle.Row
	code    string // without what stands before the blank
	number  int    // of code, if that is one
	status  int    // before the blank in the code or in the name, such as 409 of HTTP
	word    string // the same, such as "InvalidArgument" of gRPC or "DynamoDB" of AWS
	name    string // the row's, without that word
	pattern bool   // code is one of several that the row is for
}

// samples returns an error of each row of tables, which are parts of one. Of a range and
// of a beginning it is one that has no row of its own.
func samples(t testing.TB, tables []*oracle.Table) map[*oracle.Table][]sample {
	taken := map[string]bool{}
	for _, table := range tables {
		for _, r := range table.Rows {
			if from, to, ok := r.Numbers(); ok && from == to {
				taken[strconv.Itoa(int(from))] = true
			}
			taken[r.Code] = true
		}
	}
	all := map[*oracle.Table][]sample{}
	for _, table := range tables {
		for _, r := range table.Rows {
			s, ok := sampleOf(table, r, taken)
			if !ok {
				t.Errorf("%s: %s: each of its codes has a row of its own", table.Name, r.Code)
				continue
			}
			all[table] = append(all[table], s)
		}
	}
	return all
}

func sampleOf(table *oracle.Table, r oracle.Row, taken map[string]bool) (s sample, ok bool) {
	s = sample{row: r, code: r.Code, name: r.Name, pattern: r.Pattern()}
	if word, rest, found := strings.Cut(r.Name, " "); found && table.Under != "" || sqlstate(word) {
		s.word, s.name = word, rest
	} else if table.Under != "" && number(r.Name) {
		s.word, s.name = r.Name, ""
	}
	s.status, _ = strconv.Atoi(s.word)
	if i := strings.LastIndex(r.Code, " "); table.Name == "aws" && i >= 0 {
		s.word, s.code = r.Code[:i], r.Code[i+1:] // a service, whose name may have blanks
	} else if before, after, found := strings.Cut(r.Code, " "); found && number(before) {
		s.word, s.code = before, after
		s.status, _ = strconv.Atoi(before)
	}
	if from, to, ok := r.Numbers(); ok && oracle.OfNumbers(table.Rows) {
		for n := from; n <= to; n++ {
			if from == to || !taken[strconv.Itoa(int(n))] {
				s.number, s.code = int(n), strconv.Itoa(int(n))
				return s, true
			}
		}
		return s, false
	}
	if begin, found := strings.CutSuffix(s.code, "*"); found {
		s.code = begin + "ZZZ9X"[min(len(begin), 4):]
		if table.Name != "sqlstate" {
			s.code = begin + "Another"
		}
	}
	s.number, _ = strconv.Atoi(s.code)
	return s, true
}

func number(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

func sqlstate(s string) bool { return len(s) == 5 && strings.ToUpper(s) == s }

func (s sample) String() string {
	if s.pattern {
		return fmt.Sprintf("%s (%s)", s.row.Code, s.code)
	}
	return s.row.Code
}
