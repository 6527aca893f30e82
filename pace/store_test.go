package pace_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goretry/retry/pace"
)

// A store that keeps a State as JSON goes on with what it has kept, and never with the data of another program.
func TestStateAsJSON(t *testing.T) {
	var kept pace.State
	if _, held, err := kept.Reserve(1.7e9, pace.Ask{Rate: 10, Burst: 5, Want: 3, Passed: 1, Patience: 1}); held || err != nil {
		t.Fatal(held, err)
	}
	if _, held, err := kept.Reserve(1.7e9+1, pace.Ask{Rate: 10, Burst: 5, Unused: 2, Hold: 20}); !held || err != nil {
		t.Fatal("a hold is no news", err)
	}
	text, err := json.Marshal(kept)
	var read pace.State
	if err != nil || json.Unmarshal(text, &read) != nil || read != kept {
		t.Errorf("%s is read as %+v, want %+v; %v", text, read, kept, err)
	}
	for _, change := range []struct{ old, new string }{
		{`"tat":`, `"tot":`},
		{`"tat":`, `"tat":"1","x":`},
		{`"freed":`, `"freed":1e13,"x":`},
		{`{`, `{"x":1,`},
		{`"passed":`, `"passed":1e999,"x":`},
		{string(text), `{}`},
		{string(text), `null`},
		{string(text), `[1]`},
		{string(text), `{"tat":1,"at":1,"moved":0,"until":0,"passed":0,"ahead":0,"free":0}`},
		{string(text), `{"tat":1,"at":1,"moved":0,"until":0,"passed":0,"ahead":0,"free":0,"freed":1e13}`},
		{string(text), `{"tat":"1","at":1,"moved":0,"until":0,"passed":0,"ahead":0,"free":0,"freed":0}`},
	} {
		other := strings.Replace(string(text), change.old, change.new, 1)
		read := kept
		if err := json.Unmarshal([]byte(other), &read); err == nil || read != kept {
			t.Errorf("%s is read as %+v, %v", other, read, err)
		}
	}
}
