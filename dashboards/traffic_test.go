package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestShort(t *testing.T) {
	for _, tt := range []struct {
		row  []float64
		want string
	}{
		{nil, ""},
		{[]float64{0, 5, 10, 15}, "0+5x3"},
		{[]float64{7, 7, 7, 2000000, 1999999, 1999998}, "7+0x2 2000000-1x2"},
		{[]float64{none, none, 1, 2, none, stale, none, 3, stale}, "_x2 1 2 _ stale _ 3 stale"},
		{[]float64{none, stale, 4, 3.5}, "_ stale 4 3.5"},
		{[]float64{1, 0, none, none, none}, "1 0 _x3"},
	} {
		if got := short(tt.row); got != tt.want {
			t.Errorf("short(%v) = %q, want %q", tt.row, got, tt.want)
		}
	}
}

// A caller whose process restarts, is not seen for a time, and then is gone.
func TestCaller(t *testing.T) {
	c := caller{
		instance: "a", spans: []span{{10, 40, runs{"budget": .1}}}, known: []kind{succeeds},
		restarts: []float64{30}, missed: [][2]float64{{20, 30}}, ends: 60, active: []level{{20, 5}}, seconds: 2,
	}
	v := view{every: 10, step: 10, length: 80}
	want := []string{
		`retry_attempt_duration_seconds_count{job="j", instance="a", retry_name="n", retry_class="transient", error_type="503"}`, "_x4 1 1 stale _x2",
		`retry_attempt_duration_seconds_count{job="j", instance="a", retry_name="n"}`, "3 3 stale _x6",
		`retry_gave_up_total{job="j", instance="a", retry_name="n", retry_reason="budget", error_type="503"}`, "_x4 1 1 stale _x2",
		`retry_operation_active{job="j", instance="a", retry_name="n", retry_state="attempting"}`, "0 0 stale 5+0x2 stale _x2",
		`retry_operation_attempts_count{job="j", instance="a", retry_name="n", retry_outcome="failure_first_try"}`, "_x4 1 1 stale _x2",
		`retry_operation_attempts_count{job="j", instance="a", retry_name="n", retry_outcome="success_first_try"}`, "3 3 stale _x6",
		`retry_operation_duration_seconds_count{job="j", instance="a", retry_name="n", retry_outcome="failure_first_try"}`, "_x4 1 1 stale _x2",
		`retry_operation_duration_seconds_count{job="j", instance="a", retry_name="n", retry_outcome="success_first_try"}`, "3 3 stale _x6",
		`retry_operation_duration_seconds_sum{job="j", instance="a", retry_name="n", retry_outcome="failure_first_try"}`, "_x4 2 2 stale _x2",
		`retry_operation_duration_seconds_sum{job="j", instance="a", retry_name="n", retry_outcome="success_first_try"}`, "6 6 stale _x6",
	}
	var got []string
	for _, line := range v.series("j", "n", []caller{c}) {
		m := regexp.MustCompile(`^ +- series: '(.*)'\n +values: (.*)$`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line %q", line)
		}
		got = append(got, m[1:]...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d lines\n%s\nwant %d\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}
