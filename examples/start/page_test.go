package main

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goretry/retry"
)

// The page shows how the error of a first hang begins and ends.
func TestPageHasTheErrorOfAFirstHang(t *testing.T) {
	page, err := os.ReadFile("../../docs/start.md")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		policy := users
		policy.Budget = &retry.EarnedBudget{}
		_, err := load(t.Context(), policy, &http.Client{Transport: hanging{}}, "http://server/ada")
		before, after, _ := strings.Cut(err.Error(), `Get "http://server/ada"`)
		if line := "\n    " + before + "…" + after + "\n"; !strings.Contains(string(page), line) {
			t.Errorf("docs/start.md has not the line %q", strings.TrimSpace(line))
		}
	})
}
