package main

import (
	"os"
	"testing"
)

func TestThePictureShowsTheRecording(t *testing.T) {
	r, err := read("outage.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Budget) < 50 || len(r.Failed) < 50 || len(r.Retries) < 50 || len(r.Alert) < 10 {
		t.Errorf("%d, %d, %d and %d points", len(r.Budget), len(r.Failed), len(r.Retries), len(r.Alert))
	}
	if svg, err := os.ReadFile("../metrics.svg"); err != nil || string(svg) != r.svg() {
		t.Errorf("dashboards/metrics.svg is not drawn from outage.json (%v): run go run ./dashboards/picture", err)
	}
}
