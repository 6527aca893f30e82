package pacing

import (
	"math"
	"slices"
	"testing"
)

func TestTurns(t *testing.T) {
	for _, tt := range []struct {
		size float64
		end  float64 // where turns of that size end
		left turns   // after they were taken
		kept turns   // after as many of the last were dropped
	}{
		{0, 10, turns{{10, 12}, {20, 21}}, turns{{10, 12}, {20, 21}}},
		{.5, 10.5, turns{{10.5, 12}, {20, 21}}, turns{{10, 12}, {20, 20.5}}},
		{1, 11, turns{{11, 12}, {20, 21}}, turns{{10, 12}}},
		{1 + 1e-12, 11, turns{{11, 12}, {20, 21}}, turns{{10, 12}}},
		{2, 12, turns{{20, 21}}, turns{{10, 11}}},
		{2.5, 20.5, turns{{20.5, 21}}, turns{{10, 10.5}}},
		{3, 21, turns{}, turns{}},
		{3 + 1e-12, 21, turns{}, turns{}},
		{5, 102, turns{}, turns{}},
	} {
		ts := turns{{10, 12}, {20, 21}}
		near := func(a, b span) bool { return math.Abs(a.from-b.from) < 1e-9 && math.Abs(a.to-b.to) < 1e-9 }
		if end := ts.end(tt.size, 100); math.Abs(end-tt.end) > 1e-9 {
			t.Errorf("the end of %v is %v, want %v", tt.size, end, tt.end)
		}
		left, kept := slices.Clone(ts), slices.Clone(ts)
		left.take(tt.size)
		kept.drop(tt.size)
		if !slices.EqualFunc(left, tt.left, near) || !slices.EqualFunc(kept, tt.kept, near) {
			t.Errorf("%v: %v are left, want %v, and %v kept, want %v", tt.size, left, tt.left, kept, tt.kept)
		}
	}
	var ts turns
	if ts.size() != 0 || ts.last() != 0 || ts.end(2, 100) != 102 {
		t.Errorf("no turns: size %v, last %v, end %v", ts.size(), ts.last(), ts.end(2, 100))
	}
	ts.add(span{5, 7})
	ts.putBack(span{3, 4})
	if want := (turns{{3, 4}, {5, 7}}); !slices.Equal(ts, want) || ts.size() != 3 || ts.last() != 7 {
		t.Errorf("%v, want %v", ts, want)
	}
}
