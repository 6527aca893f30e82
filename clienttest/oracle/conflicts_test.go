package oracle_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/clienterr/oracle"
	"github.com/goretry/retry/retrysql"
)

// A server fails a transaction some times, at a statement or at COMMIT.
type server struct {
	statement, commit error
	times             int
}

func (s *server) Commit(context.Context) error   { return s.next(s.commit) }
func (s *server) Rollback(context.Context) error { return nil }

func (s *server) next(err error) error {
	if err == nil || s.times == 0 {
		return nil
	}
	s.times--
	return err
}

// transacts runs a transaction that must not happen twice, and returns how many it took.
func transacts(t *testing.T, s *server) (attempts int, err error) {
	p := retry.Policy{NonIdempotent: true, MaxAttempts: 21, Budget: &retry.EarnedBudget{}, Backoff: retry.Constant(0), Clock: &clockx.Virtual{}}
	_, err = retrysql.TxOf(t.Context(), p, func(context.Context) (*server, error) { return s, nil },
		func(context.Context, *server) (struct{}, error) {
			attempts++
			return struct{}{}, s.next(s.statement)
		})
	return attempts, err
}

// A server that has rolled back a transaction because of another one says so at a statement or
// at COMMIT. It is repeated, although it must not happen twice, and that uses up nothing but time:
// the budget would allow a few attempts.
func TestConflicts(t *testing.T) {
	all, err := oracle.Tables()
	if err != nil {
		t.Fatal(err)
	}
	conflicts := 0
	for _, table := range all {
		if table.Name != "conflicts" {
			continue
		}
		for _, row := range table.Rows {
			name, code, _ := strings.Cut(row.Code, " ")
			s := sample{row: row, code: code}
			s.number, _ = strconv.Atoi(code)
			want := 21
			if row.Verdict != "retry" {
				want = 1
			}
			for _, c := range vendors[name].clients { // SQLite's are in retrysql
				conflicts++
				err := c.make(s)
				if n, got := transacts(t, &server{err, nil, 20}); n != want || (got == nil) != (want > 1) {
					t.Errorf("%s of %s at a statement: %d attempts, %v, want %d", row.Code, c.name, n, got, want)
				}
				n, got := transacts(t, &server{nil, err, 20})
				_, uncertain := errors.AsType[*retrysql.CommitError](got)
				if n != want || uncertain {
					t.Errorf("%s of %s at COMMIT: %d attempts, %v, want %d and no doubt", row.Code, c.name, n, got, want)
				}
			}
		}
	}
	if conflicts < 48 {
		t.Errorf("%d conflicts", conflicts)
	}
}

// After these nobody knows whether COMMIT has happened.
func TestDoubtAfterCommit(t *testing.T) {
	for name, codes := range map[string]string{
		"mysql":    "1047 1053 1180 1317 1927 3100 1158 1161 9001 9002",
		"sqlstate": "08006 08007 40003 57014 57P01 XX000",
		"mssql":    "64 233 10053 10054 40197 40613",
		"oracle":   "28 3113 3114 12170",
		"firebird": "335544721 335544726 335544741 335544856",
		"ydb":      "400050 400090 400170",
		"hana":     "4 139",
		"neo4j":    "Neo.TransientError.General.Unknown",
	} {
		for code := range strings.FieldsSeq(codes) {
			for _, c := range vendors[name].clients {
				s := sample{code: code}
				s.number, _ = strconv.Atoi(code)
				n, err := transacts(t, &server{nil, c.make(s), 1})
				if _, uncertain := errors.AsType[*retrysql.CommitError](err); n != 1 || !uncertain {
					t.Errorf("%s of %s at COMMIT: %d attempts, %v, want a CommitError after one", code, c.name, n, err)
				}
			}
		}
	}
}
