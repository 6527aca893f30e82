package bench

import (
	"strings"
	"testing"
	"time"
)

// Every way to hedge makes its calls, and the table has a row for each phase. What the
// figures are is not tested: the machine may be busy.
func TestTail(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	const phase = 300 * time.Millisecond
	rows, err := Tail(t.Context(), 1, phase, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(TailPeers) * len(tailPhases); len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	doc := TailMarkdown(rows, 1, phase)
	for _, p := range TailPeers {
		if got := strings.Count(doc, "\n| "+p.Name+" | "); got != len(tailPhases) {
			t.Errorf("%d rows of %s, want %d", got, p.Name, len(tailPhases))
		}
	}
	for _, r := range rows {
		if len(r.Times) != r.Calls || r.Calls == 0 || r.At(.5) > r.At(.999) {
			t.Errorf("%+v", r)
		}
	}
	// Ours leaves nothing, and the floor proves that there is nothing else to leave.
	for _, r := range rows[:2*len(tailPhases)] {
		if r.Open != 0 || r.Goroutines != 0 {
			t.Errorf("%s left %d bodies and %d goroutines", r.Peer, r.Open, r.Goroutines)
		}
	}
}
