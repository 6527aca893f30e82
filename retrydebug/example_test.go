package retrydebug_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydebug"
)

func ExampleRecorder() {
	mux := http.NewServeMux()
	budget := new(retry.EarnedBudget)

	var page retrydebug.Recorder
	page.ObserveBudget("users", budget) // also ObserveLimit, ObserveBreaker, ObserveGate, ObserveTarget, ObserveHedge and ObservePace
	mux.Handle("/debug/retry", &page)

	policy := retry.Policy{
		Name:   "get-user",
		Budget: budget,
		Hooks:  page.Hooks(), // with others: retry.JoinHooks(otelretry.Hooks(), page.Hooks())
	}

	server := httptest.NewServer(mux) // which listens on 127.0.0.1
	defer server.Close()

	_ = retry.Run(context.Background(), policy, func(context.Context) error {
		return retry.Stop(fmt.Errorf("no such user"))
	})

	resp, err := http.Get(server.URL + "/debug/retry?format=json")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Status, strings.Contains(string(body), `"error":"no such user"`))
	// Output: 200 OK true
}
