package retryredis_test

import (
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goretry/retry/fleetpace"
	"github.com/goretry/retry/retryredis"
)

// names are those of the numbers of a State, as the script has them.
func names(t *testing.T) []string {
	t.Helper()
	script, err := os.ReadFile("law.lua")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)\nlocal names = \{(.*?)\}`).FindSubmatch(script)
	if list == nil {
		t.Fatal("the script has no names")
	}
	var names []string
	for _, m := range regexp.MustCompile(`'(\w+)'`).FindAllSubmatch(list[1], -1) {
		names = append(names, string(m[1]))
	}
	return names
}

// numbers are those of the text of a State, in the order of fleetpace.
func numbers(t *testing.T, text string) []float64 {
	t.Helper()
	words := strings.Fields(text)
	zero, _ := new(fleetpace.State).MarshalText()
	if len(words) != len(strings.Fields(string(zero))) || words[0] != "1" {
		t.Fatalf("%q is not the text of a State", text)
	}
	var xs []float64
	for _, word := range words[1:] {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			t.Fatal(err)
		}
		xs = append(xs, x)
	}
	return xs
}

// throttling is a server that throttles a part of the attempts whatever their rate is, and all beyond a limit.
type throttling struct{ part, limit float64 }

// hits returns how many of the attempts are throttled that start at a rate for some seconds.
// Their number scatters as that of independent ones.
func (s throttling) hits(chance *rand.Rand, rate, seconds float64) float64 {
	expected := max(s.part*rate, rate-s.limit) * seconds
	if expected > 50 {
		return math.Floor(max(expected+math.Sqrt(expected)*chance.NormFloat64(), 0))
	}
	hits := 0.
	for p := chance.Float64(); p > math.Exp(-expected); p *= chance.Float64() {
		hits++
	}
	return hits
}

// However reports come and clocks go, the script answers and keeps what the law does. Half of
// the reports are random. The others are of a server that throttles, and lead to trials.
func TestScriptIsTheLaw(t *testing.T) {
	const steps = 20_000
	client := connect(t, start(t))
	f := &retryredis.Fleet{Client: client, Key: "provider/model/key"}
	ctx := t.Context()
	chance := rand.New(rand.NewPCG(3, 6))
	size := func(most float64) float64 { // often small, and a whole number
		x := math.Pow(chance.Float64(), 3) * most
		if chance.IntN(3) > 0 {
			x = math.Floor(x)
		}
		return x
	}
	names := names(t)
	of := func(xs []float64, name string) float64 { return xs[slices.Index(names, name)] }
	var s fleetpace.State
	var last fleetpace.Answer
	met, longest := map[string]int{}, 0
	now, kept := 1.7e9, make([]float64, len(names))
	// For a while: the part of reports with refusals, how many, the attempts, the turns wanted,
	// those returned, and the time between.
	var refused, hits, started, take, returned, pause float64
	var served bool       // by a server that throttles
	var server throttling // which changes now and then
	var unrelated bool    // as the last trial has just shown
	oneOf := func(xs ...float64) float64 { return xs[chance.IntN(len(xs))] }
	for step := range steps {
		if step%200 == 0 {
			refused, hits, started = oneOf(0, .05, .2, .5), oneOf(0, 20), oneOf(10, 100)
			take, returned, pause = oneOf(0, 30, 100), oneOf(1, 3), oneOf(.1, 1, 10)
		}
		served = step%1000 >= 500
		switch {
		case !served:
		case step%1000 == 500 || step%100 == 0 && of(kept, "spare_left") == 0:
			server = throttling{part: oneOf(.05, .1, .1, .15, .2, .6), limit: math.Inf(1)}
			if chance.IntN(4) == 0 {
				server = throttling{limit: oneOf(6, 15, 40)}
			}
		case of(kept, "trial_round") == last.Round && of(kept, "trial_sent") == 0: // a trial begins
			server.part *= oneOf(1, 1, 1, 1, 0, .3, 3)
			// As if it were not the first: it takes long until several in a row have shown the same.
			text, _ := s.MarshalText()
			words := strings.Fields(string(text))
			words[1+slices.Index(names, "spare_verdicts")] = []string{"0", "0", "2", "8", "8"}[chance.IntN(5)]
			edited := strings.Join(words, " ")
			if err := s.UnmarshalText([]byte(edited)); err != nil {
				t.Fatal(err)
			}
			if err := client.Set(ctx, f.Key, edited, 0).Err(); err != nil {
				t.Fatal(err)
			}
			kept = numbers(t, edited)
		case unrelated: // a respite begins
			server.part *= oneOf(1, .1, 5)
		}
		old, deleted, idle := kept, false, false
		event := chance.IntN(500)
		switch {
		case !served:
		case step%1000 == 500:
			event = 3
		case chance.IntN(20) > 0:
			event = 500
		}
		switch event {
		case 0:
			now += chance.Float64() * 1000
			met["a clock that jumps forward"]++
		case 1:
			now -= chance.Float64() * 60
			met["a clock of another process"]++
		case 2:
			now -= 60 + chance.Float64()*1000
			met["a clock that jumps back"]++
		case 3:
			if err := client.Del(ctx, f.Key).Err(); err != nil {
				t.Fatal(err)
			}
			s, deleted, old = fleetpace.State{}, true, make([]float64, len(names))
			met["a deleted key"]++
		case 4, 5, 6, 7, 8, 9: // about as long as the law waits for what it says of an idle quota
			now = max(of(kept, "busy"), 1.7e9) + oneOf(10, 300, 10+8/max(of(kept, "rate"), .02))*(.995+chance.Float64()/100)
			idle = true
			met["a bound"]++
		case 10, 11:
			now -= 60 * (.995 + chance.Float64()/100)
			met["a bound"]++
		default:
			if !served {
				now += chance.Float64() * pause
			}
		}
		r := fleetpace.Report{
			Epoch: last.Epoch, Round: last.Round, Rate: last.Rate, Counted: chance.IntN(2) == 0, Started: size(started),
			Take: size(take), Patience: size(1000), Returned: size(returned), Hint: chance.Float64() * 100, Costs: size(1e6), Priced: size(20),
		}
		if served {
			seconds := chance.Float64() * min(50/last.Rate, 1)
			now += seconds
			r.Take, r.Patience, r.Returned = 2*last.Rate*seconds, 5, 0
			if r.Hint = chance.Float64() * 5; last.Hold == 0 {
				r.Hits = server.hits(chance, last.Rate, seconds)
				r.Fresh = r.Hits
			}
		} else if chance.Float64() < refused {
			r.Hits = 1 + size(hits)
			r.Fresh = min(size(20), r.Hits)
		}
		if last.Mode == fleetpace.Counting && chance.IntN(2) == 0 {
			r.Counted, r.Started, r.Hits = true, oneOf(10, 32, 40, 64, 65), oneOf(0, 1, 2, 4, 5)
			met["a count"]++
		}
		if idle {
			r.Hits, r.Fresh = 1, 1
		}
		switch chance.IntN(100) {
		case 0:
			if r.Hold = chance.Float64() * 100; served {
				r.Hold /= 100
			}
		case 1:
			r.Patience = math.Inf(1)
		}
		if chance.IntN(10) == 0 && !(served && chance.IntN(5) > 0) { // another process, which knows less
			r.Round--
		}
		if chance.IntN(50) == 0 {
			r.Epoch, r.Rate = 0, 0
		}
		if deleted {
			r.Rate = oneOf(0, last.Rate, last.Rate, 1e-9, 1e10)
			if served {
				r.Rate = oneOf(10, 20, 50, 200)
			}
		}

		random := chance.Float64()
		got, err := f.ExchangeAt(ctx, now, random, r)
		if err != nil {
			t.Fatalf("step %d: %v: %+v", step, err, r)
		}
		before, _ := s.MarshalText()
		want := s.Apply(now, random, r)
		same(t, step, got, want)
		text, err := client.Get(ctx, f.Key).Result()
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, len(text))
		law, _ := s.MarshalText()
		kept = numbers(t, text)
		for i, x := range numbers(t, string(law)) {
			if !near(kept[i], x) {
				t.Fatalf("step %d: %s is %v, want %v: after\n%s and %+v\n%s, want\n%s", step, names[i], kept[i], x, before, r, text, law)
			}
		}
		// Each step begins where the script is: so differences in the last digit do not add up.
		if err := s.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}

		met["mode "+strconv.Itoa(int(want.Mode))]++
		note := func(what string, is bool) {
			if is {
				met[what]++
			}
		}
		note("a rate that was brought", want.Epoch != last.Epoch && want.Mode == fleetpace.Paced)
		note("a hold by hint", want.Hold > 0 && want.Mode == fleetpace.Paced && r.Hold == 0 && last.Hold == 0)
		note("the end of a hold", last.Mode == fleetpace.Held && want.Mode == fleetpace.Paced)
		note("the end of counting", last.Mode == fleetpace.Counting && want.Mode == fleetpace.Paced)
		note("counting in vain", last.Mode == fleetpace.Counting && want.Mode == fleetpace.Open)
		note("a remembered rate", last.Mode == fleetpace.Open && want.Mode == fleetpace.Paced)
		note("a cut", last.Mode == want.Mode && want.Mode == fleetpace.Paced && want.Round > last.Round && want.Rate < last.Rate)
		note("growth", last.Mode == want.Mode && want.Round == last.Round && want.Rate > last.Rate)
		tried := of(old, "trial_round") > 0 && want.Mode == fleetpace.Paced && last.Mode == fleetpace.Paced
		over := tried && of(kept, "trial_round") == 0
		unrelated = over && of(kept, "spare_verdicts") >= max(of(old, "spare_verdicts"), 1)
		other, seen, lost := over && !unrelated, of(old, "trial_seen") > 0, of(old, "trial_lost")
		note("a trial", of(old, "trial_round") == 0 && of(kept, "trial_round") > 0)
		note("a trial that goes on", tried && !over && of(kept, "trial_sent") > of(old, "trial_sent"))
		note("the first that was throttled in a trial", tried && !over && !seen && of(kept, "trial_seen") > 0)
		note("more that were throttled in a trial", tried && !over && of(kept, "trial_lost") > lost)
		note("the verdict Same", unrelated)
		note("the verdict Same in a row", unrelated && of(kept, "spare_verdicts") > 1)
		note("the verdict Same after the longest respite", unrelated && of(old, "spare_verdicts") == 8)
		note("the verdict Other: none was throttled", other && !seen)
		note("the verdict Other: few were throttled", other && seen && lost <= 3)
		note("the verdict Other: many were throttled", other && lost >= 17)
		note("the verdict Other: many were throttled at once", other && lost >= 6 && lost < 16)
		note("the verdict Other after Same", other && of(old, "spare_verdicts") > 0)
		note("doubts anew", want.Mode == fleetpace.Paced && of(old, "trial_round") == 0 && of(old, "trial_top") > 0 && of(kept, "trial_top") > of(old, "trial_top"))
		left := of(old, "spare_left")
		respite := left > 0 && of(kept, "spare_left") > 0
		note("a respite", respite)
		note("the end of a respite", left > 0 && of(kept, "spare_left") == 0 && of(kept, "spare_verdicts") > 0)
		note("the end of a respite without throttled attempts", left > max(0, of(kept, "at")-of(old, "at")) && of(kept, "spare_verdicts") == 0 && of(old, "trial_round") == 0 && want.Mode == fleetpace.Paced && last.Mode == fleetpace.Paced)
		note("throttled attempts in a respite without a cut", respite && r.Fresh > 0 && r.Round == want.Round && want.Mode == fleetpace.Paced)
		note("a cut in a respite", respite && r.Fresh > 0 && want.Round > last.Round && want.Rate < last.Rate)
		note("growth in a respite", respite && want.Round == last.Round && want.Rate > last.Rate)
		note("returned turns", r.Returned > 0 && r.Epoch == want.Epoch && want.Mode == fleetpace.Paced)
		note("a faster head", want.Speed > want.Rate)
		note("turns", want.Size > 0)
		note("no patience", want.Mode == fleetpace.Paced && want.Size < r.Take)
		note("costs", want.Mean > 0)
		note("news", want.News)
		last = want
	}
	for _, what := range []string{
		"mode 0", "mode 1", "mode 2", "mode 3", "a clock that jumps forward", "a clock of another process", "a clock that jumps back",
		"a deleted key", "a rate that was brought", "a hold by hint", "the end of a hold", "the end of counting", "a count", "counting in vain",
		"a remembered rate", "a bound", "a cut", "growth", "returned turns", "a faster head", "turns", "no patience", "costs", "news",
		"a trial", "a trial that goes on", "the first that was throttled in a trial", "more that were throttled in a trial",
		"the verdict Same", "the verdict Same in a row", "the verdict Same after the longest respite", "the verdict Other: none was throttled", "the verdict Other: few were throttled",
		"the verdict Other: many were throttled", "the verdict Other: many were throttled at once", "the verdict Other after Same", "doubts anew",
		"a respite", "the end of a respite", "the end of a respite without throttled attempts",
		"throttled attempts in a respite without a cut", "a cut in a respite", "growth in a respite",
	} {
		if met[what] < 3 {
			t.Errorf("met %d times, and so hardly tested: %s", met[what], what)
		}
	}
	t.Log(met, "the longest text has", longest, "bytes")
}

// source returns a file of the law, and skips t if there is only this module.
func source(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Skip("without the source of the law: ", err)
	}
	return string(text)
}

// The script keeps the numbers of a State in the order of its text.
func TestNamesAreThoseOfTheLaw(t *testing.T) {
	_, list, _ := strings.Cut(source(t, "../fleetpace/state.go"), "\nfunc (s *State) numbers() ")
	list, _, _ = strings.Cut(list, "\n}\n")
	var want []string
	for _, m := range regexp.MustCompile(`&s\.([\w.]+)`).FindAllStringSubmatch(list, -1) {
		want = append(want, strings.ToLower(strings.ReplaceAll(m[1], ".", "_")))
	}
	if got := names(t); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the script has %q, want %q", got, want)
	}
}

// A script that differs by a constant that hardly ever matters would pass for the law.
func TestConstantsAreThoseOfTheLaw(t *testing.T) {
	ofFleet, ofTrials := source(t, "../fleetpace/state.go"), source(t, "../internal/trial/trial.go")
	script, err := os.ReadFile("law.lua")
	if err != nil {
		t.Fatal(err)
	}
	value := func(text string) float64 {
		x := 1.
		for i, factor := range strings.Split(text, "/") {
			y, err := strconv.ParseFloat(strings.TrimSpace(factor), 64)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if i == 0 {
				x = y
			} else {
				x /= y
			}
		}
		return x
	}
	law := map[string]float64{}
	renamed := map[string]string{"maxHold": "max_hold"}
	constants := func(source, prefix string) {
		section, _, _ := strings.Cut(source, "\ntype ")
		for _, m := range regexp.MustCompile(`(?m)^\t(\w+) +=([ \d./e]+?)(?: *//.*)?$`).FindAllStringSubmatch(section, -1) {
			name := m[1]
			if renamed[name] != "" {
				name = renamed[name]
			}
			law[prefix+name] = value(m[2])
		}
	}
	constants(ofFleet, "")
	constants(ofTrials, "trial_")
	of := regexp.MustCompile(`\nvar trials = trial\.Law\{Ask: ([\d.]+), Shown: ([\d.]+)\}\n`).FindStringSubmatch(ofFleet)
	if of == nil {
		t.Fatal("the law has no trials")
	}
	law["trial_ask"], law["trial_shown"] = value(of[1]), value(of[2])
	for _, m := range regexp.MustCompile(`(?m)^local ([\w, ]+) = ([\d./e, ]+)$`).FindAllStringSubmatch(string(script), -1) {
		xs := strings.Split(m[2], ",")
		for i, name := range strings.Split(m[1], ", ") {
			want, ok := law[name]
			switch {
			case slices.Contains([]string{"open", "counting", "held", "paced", "trial_undecided", "trial_other", "trial_same"}, name): // modes and verdicts
			case !ok || value(xs[i]) != want:
				t.Errorf("%s is %v, want %v", name, value(xs[i]), want)
			default:
				delete(law, name)
			}
		}
	}
	if len(law) > 0 {
		t.Errorf("the script has none of %v", law)
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Abs(want) }

// same fails t unless an answer is another one.
func same(t *testing.T, step int, got, want fleetpace.Answer) {
	t.Helper()
	g := []float64{got.Epoch, got.Round, got.Rate, got.Speed, got.Head, got.Tail, got.Hold, got.Count, got.First, got.Size, got.Mean}
	w := []float64{want.Epoch, want.Round, want.Rate, want.Speed, want.Head, want.Tail, want.Hold, want.Count, want.First, want.Size, want.Mean}
	ok := got.Epoch == want.Epoch && got.Round == want.Round && got.Mode == want.Mode && got.News == want.News
	for i := range g {
		ok = ok && near(g[i], w[i])
	}
	if !ok {
		t.Fatalf("step %d: the script answers %+v, and the law %+v", step, got, want)
	}
}
