package fleetpace_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goretry/retry/fleetpace"
)

// names are those of the numbers of a text, in order.
var names = strings.Fields(`epoch mode round rate share calm got lost span passed was cut sure clean
	top tried before instead doubted seen low refused left base again verdicts
	head tail gaps at hold busy since sent hits mean`)

// textWith returns the text of a paced state with some of its numbers changed: "rate=0 tail=5".
func textWith(t testing.TB, text, changes string) string {
	t.Helper()
	words := strings.Fields(text)
	if len(words) != 1+len(names) {
		t.Fatalf("%d words, want %d", len(words), 1+len(names))
	}
	for change := range strings.FieldsSeq(changes) {
		name, x, _ := strings.Cut(change, "=")
		found := false
		for i := range names {
			if names[i] == name {
				words[1+i], found = x, true
			}
		}
		if !found {
			t.Fatalf("no number is called %q", name)
		}
	}
	return strings.Join(words, " ")
}

// possibleText is a text of a State that the law can make.
const possibleText = "1 17 3 3 10 .125 2 40 4 4 9 9 1000 1 30 20 3 18 17 .1 1 40 4 0 .1 20 8 5 10 2 1000.5 1002 1000.25 999 20 4 100"

// A text of what no reports can bring about is an error: some numbers alone, some beside others.
func TestImpossibleTexts(t *testing.T) {
	var s fleetpace.State
	if err := s.UnmarshalText([]byte(possibleText)); err != nil {
		t.Fatal(err)
	}
	if text, _ := new(fleetpace.State).MarshalText(); new(fleetpace.State).UnmarshalText(text) != nil {
		t.Errorf("the zero State is written as %q, which is not read", text)
	}
	before := s
	for _, changes := range []string{
		"epoch=0", "epoch=1.5", "mode=4", "mode=7", "mode=2.5", "round=2.5", "round=1e300", "sure=2", "sure=.5",
		"rate=0", "rate=.01", "rate=1e10", "share=1.1", "lost=41", "tail=1e300", "tail=1e300 head=1e300",
		"mode=0", "mode=1", "head=11.1", "gaps=6", "head=11 gaps=1", "busy=1002", "since=1001", "cut=1001", "hold=1076",
		"tried=.5", "tried=3 top=0", "doubted=1.1", "doubted=0", "seen=2", "seen=.5", "left=161", "base=1.1", "verdicts=9",
	} {
		if text := textWith(t, possibleText, changes); s.UnmarshalText([]byte(text)) == nil || s != before {
			t.Errorf("%s: %q is read as %+v", changes, text, s)
		}
	}
	for _, name := range names {
		for _, x := range []string{"-1", "-1e-9", "NaN", "Inf", "-Inf", "1e999", "x", "0x1", "1_0"} {
			if text := textWith(t, possibleText, name+"="+x); s.UnmarshalText([]byte(text)) == nil || s != before {
				t.Errorf("%s of %s: %q is read as %+v", name, x, text, s)
				s = before
			}
		}
	}
	for _, changes := range []string{ // at the limits
		"head=11 gaps=0", "gaps=5", "hold=1075.5", "left=160", "doubted=1", "base=1", "tried=0 top=0 doubted=0 seen=0", "rate=1e9", "rate=0.016666666666666666", "share=1", "lost=40", "busy=1000.5",
		"mode=0 rate=0 head=10 gaps=0", "mode=1 rate=0 head=10 gaps=0", "mode=2 rate=0", "sure=0",
	} {
		if err := s.UnmarshalText([]byte(textWith(t, possibleText, changes))); err != nil {
			t.Errorf("%s: %v", changes, err)
		}
	}
}

// The texts of a State are short enough for the script of package retryredis, which reads no
// more than 1024 bytes.
func TestLongestText(t *testing.T) {
	text := "1" + strings.Repeat(" 1.2345678901234568e-300", len(names))
	text = textWith(t, text, "epoch=4503599627370496 mode=3 round=4503599627370496 rate=0.017345678901234566 sure=1 tried=4503599627370496 seen=1")
	var s fleetpace.State
	if err := s.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if written, _ := s.MarshalText(); string(written) != text || len(text) > 1024 {
		t.Errorf("%d bytes, want 1024 at most, and %q:\n%q", len(text), text, written)
	}
}

// What is read can be written, and the law goes on with it: its answers are answers, and what
// it makes of it can be read.
func FuzzText(f *testing.F) {
	f.Add(possibleText, 1001., .5, 1., 0., 3.)
	for _, changes := range []string{"mode=1 head=10 gaps=0", "mode=2 rate=0", "mode=0 head=10 gaps=0", "head=11 gaps=0", "gaps=5", "got=1e300 lost=1e300", "mean=1e-300"} {
		f.Add(textWith(f, possibleText, changes), 1010., .1, 5., 30., 20.)
	}
	f.Fuzz(func(t *testing.T, text string, now, random, hits, hint, take float64) {
		var s, again fleetpace.State
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		written, _ := s.MarshalText()
		if err := again.UnmarshalText(written); err != nil || again != s {
			t.Fatalf("%q is written as %q: %v", text, written, err)
		}
		if !(now >= 0 && now < 1e12 && random >= 0 && random < 1 && hits >= 0 && hits < 1e6 && hint >= 0 && hint < 1e6 && take >= 0 && take < 1e6) {
			return
		}
		for range 3 {
			a := s.Apply(now, random, fleetpace.Report{})
			r := fleetpace.Report{Epoch: a.Epoch, Round: a.Round, Started: hits, Hits: hits, Fresh: hits, Hint: hint, Take: take, Patience: hint, Counted: true, Costs: hits, Priced: hits}
			a = s.Apply(now, random, r)
			if err := a.Check(r); err != nil {
				t.Fatalf("%q: %+v", text, a)
			}
			written, _ = s.MarshalText()
			if err := again.UnmarshalText(written); err != nil {
				t.Fatalf("%q becomes %q: %v", text, written, err)
			}
			now += hint + 1
		}
	})
}

func ExampleState_MarshalText() {
	var s fleetpace.State
	s.Apply(1000, .5, fleetpace.Report{})
	text, _ := s.MarshalText()
	fmt.Printf("%s\n", text)
	// Output: 1 2251799813685249 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1000 0 0 0 0 0 0
}
