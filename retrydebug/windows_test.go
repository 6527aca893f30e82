package retrydebug

import (
	"testing"
	"time"

	"github.com/goretry/retry"
)

// Shards hand over what they have counted at different times: a second that is over
// for a window must not take the place of a later one.
func TestCellsInAnyOrder(t *testing.T) {
	var one counts
	one.count(firstTry, &retry.Summary{Attempts: 1})
	for _, seconds := range [][]int64{{7190, 7200, 3600, 7201, 0}, {0, 3600, 7190, 7200, 7201}, {7201, 7200, 7190, 3600, 0}} {
		var cs cells
		for _, second := range seconds {
			cs.add(second, &one)
		}
		for i, want := range []uint64{2, 3, 3} { // of ten seconds, a minute and an hour before 2 h and 1.5 s
			sum, _, _ := cs.window(i, 2*time.Hour+1500*time.Millisecond)
			if got := sum.runs(); got != want {
				t.Errorf("%v: %d runs in the last %s, want %d", seconds, got, spans[i].name, want)
			}
		}
	}
}
