package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

type server func(*http.Request) (*http.Response, error)

func (s server) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }

func missing(req *http.Request) (*http.Response, error) {
	time.Sleep(120 * time.Millisecond)
	return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: req}, nil
}

func refused(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// policyWith returns the page's policy with a budget, which may be nil, and waits that
// add up to 280ms.
func policyWith(b retry.Budget) retry.Policy {
	policy := users
	policy.Budget = b
	policy.Rand = func() float64 { return 0.4 }
	return policy
}

func checkPage(t *testing.T, err error) {
	t.Helper()
	page, e := os.ReadFile("../../docs/start.md")
	if e != nil {
		t.Fatal(e)
	}
	if line := "\n    " + err.Error() + "\n"; !strings.Contains(string(page), line) {
		t.Errorf("docs/start.md has not the line %q", err.Error())
	}
}

func TestPageHasTheErrorsOfTheProgram(t *testing.T) {
	for url, s := range map[string]server{"https://api.github.com/users/-": missing, "http://127.0.0.1:1/users/octocat": refused} {
		synctest.Test(t, func(t *testing.T) {
			_, err := load(t.Context(), policyWith(nil), &http.Client{Transport: s}, url)
			checkPage(t, err)
		})
	}
}

func TestPageHasTheErrorOfAFirstHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := load(t.Context(), policyWith(&retry.EarnedBudget{}), &http.Client{Transport: hanging{}}, "https://api.github.com/users/octocat")
		checkPage(t, err)
	})
}

func attemptsOf(t *testing.T, policy retry.Policy, s http.RoundTripper) int {
	t.Helper()
	_, err := load(context.Background(), policy, &http.Client{Transport: s}, "http://server/ada")
	e, ok := errors.AsType[*retry.Error](err)
	if !ok {
		t.Fatalf("got %v, want a *retry.Error", err)
	}
	return e.Attempts
}

// Without a budget the program makes all its attempts, even if each hangs.
func TestProgramRetriesAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if n := attemptsOf(t, policyWith(nil), hanging{}); n != 4 {
			t.Errorf("%d attempts, want 4", n)
		}
	})
}

func TestNewBudgetPaysForFourRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := policyWith(&retry.EarnedBudget{})
		for call, want := range []int{4, 2, 1} {
			if n := attemptsOf(t, policy, server(refused)); n != want {
				t.Errorf("call %d: %d attempts, want %d", call+1, n, want)
			}
		}
	})
}
