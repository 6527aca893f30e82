package retryconf_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryconf"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// parse returns the policy of a text.
func parse(text string) (retry.Policy, error) {
	var p retryconf.Policy
	err := p.UnmarshalText([]byte(text))
	return p.Policy, err
}

// unlimited is a Budget that package retry does not know.
type unlimited struct{}

func (*unlimited) Withdraw(retry.Withdrawal) bool { return true }
func (*unlimited) End(retry.Outcome)              {}

var texts = []struct {
	text   string
	policy retry.Policy
}{
	{"", retry.Policy{}},
	{"name=fetch-user", retry.Policy{Name: "fetch-user"}},
	{`name="fetch \"user\" \xff ü"`, retry.Policy{Name: "fetch \"user\" \xff ü"}},
	{`name="fetch user"`, retry.Policy{Name: "fetch user"}},
	{`name="a(b,c)=d"`, retry.Policy{Name: "a(b,c)=d"}},
	{"name=true", retry.Policy{Name: "true"}},
	{"attempts=4", retry.Policy{MaxAttempts: 4}},
	{"attempts=unlimited", retry.Policy{MaxAttempts: retry.Unlimited}},
	{"max_elapsed=1h attempt_timeout=1m30s max_retry_after=1.5ms", retry.Policy{MaxElapsed: time.Hour, AttemptTimeout: 90 * s, MaxRetryAfter: 1500 * time.Microsecond}},
	{"non_idempotent", retry.Policy{NonIdempotent: true}},
	{"backoff=constant(2m)", retry.Policy{Backoff: retry.Constant(2 * time.Minute)}},
	{"backoff=constant(0)", retry.Policy{Backoff: retry.Constant(0)}},
	{"max_elapsed=1ns", retry.Policy{MaxElapsed: 1}},
	{"backoff=exponential(0,0,1e+21)", retry.Policy{Backoff: retry.Exponential{Factor: 1e21}}},
	{"backoff=linear jitter=plusminus(0.9)", retry.Policy{Backoff: retry.Linear{Jitter: retry.PlusMinus(.9)}}},
	{"backoff=exponential", retry.Policy{Backoff: retry.Exponential{}}},
	{"backoff=exponential(100ms,10s) jitter=full", retry.Policy{Backoff: retry.Exponential{Base: 100 * ms, Max: 10 * s, Jitter: retry.FullJitter}}},
	{"backoff=exponential(0,0,1.5) jitter=equal", retry.Policy{Backoff: retry.Exponential{Factor: 1.5, Jitter: retry.EqualJitter}}},
	{"backoff=linear(1s) jitter=none", retry.Policy{Backoff: retry.Linear{Base: s, Jitter: retry.NoJitter}}},
	{"backoff=linear(0,1h1m) jitter=plusminus(0.2)", retry.Policy{Backoff: retry.Linear{Max: time.Hour + time.Minute, Jitter: retry.PlusMinus(.2)}}},
	{"backoff=decorrelated(5ms,2s)", retry.Policy{Backoff: retry.Decorrelated{Base: 5 * ms, Max: 2 * s}}},
	{"backoff=schedule(1s,0,2s,0)", retry.Policy{Backoff: retry.Schedule{s, 0, 2 * s, 0}}},
	{"backoff=exponential(200ms,1m) jitter=plus(100ms)", retry.Policy{Backoff: retry.Exponential{Base: s / 5, Max: time.Minute, Jitter: retry.Plus(s / 10)}}},
	{"backoff=linear jitter=between(0.5,1,2s)", retry.Policy{Backoff: retry.Linear{Jitter: retry.Jitter{Low: .5, High: 1, Plus: 2 * s}}}},
	{"backoff=constant(1s) throttle=exponential throttle_jitter=between(0.25,3)", retry.Policy{Backoff: retry.Constant(s), ThrottleBackoff: retry.Exponential{Jitter: retry.Jitter{Low: .25, High: 3}}}},
	{"budget=earned", retry.Policy{Budget: &retry.EarnedBudget{}}},
	{"budget=token", retry.Policy{Budget: &budget.Token{}}},
	{"budget=token(500,14,-5,1)", retry.Policy{Budget: &budget.Token{Capacity: 500, Cost: 14, ThrottleCost: -5, Reward: 1}}},
	{"budget=ratio(0.1,-1,10s)", retry.Policy{Budget: &budget.Ratio{Ratio: .1, MinPerSecond: -1, Window: 10 * s}}},
	{"attempts=4 backoff=exponential(100ms,10s) jitter=full budget=ratio(0.1)", retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Exponential{Base: 100 * ms, Max: 10 * s, Jitter: retry.FullJitter},
		Budget:      &budget.Ratio{Ratio: .1},
	}},
}

func TestPolicyText(t *testing.T) {
	for _, tt := range texts {
		p, err := parse(tt.text)
		if err != nil || !reflect.DeepEqual(p, tt.policy) {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", tt.text, p, err, tt.policy)
		}
		if got := format(tt.policy); got != tt.text {
			t.Errorf("Format(%+v) = %q, want %q", tt.policy, got, tt.text)
		}
	}
}

func TestPolicyTextIsReadAsPeopleWriteIt(t *testing.T) {
	for text, want := range map[string]string{
		"  attempts=4\t name=x  ":             "name=x attempts=4",
		"jitter=none attempts=2":              "attempts=2 backoff=exponential jitter=none",
		"throttle_jitter=equal":               "throttle=exponential throttle_jitter=equal",
		"jitter=equal backoff=linear(1s)":     "backoff=linear(1s) jitter=equal",
		"backoff=exponential( 1s , 60s )":     "backoff=exponential(1s,1m)",
		"backoff=exponential(1s,0s,0)":        "backoff=exponential(1s)",
		"jitter=between(0.8,1.2)":             "backoff=exponential jitter=plusminus(0.2)",
		"jitter=between(0,1)":                 "backoff=exponential jitter=full",
		"jitter=between(1,1,50ms)":            "backoff=exponential jitter=plus(50ms)",
		"jitter=plus(0)":                      "backoff=exponential jitter=none",
		"budget=ratio(1e-1,+Inf)":             "budget=ratio(0.1,+Inf)",
		`name="plain"`:                        "name=plain",
		"name=é max_elapsed=0s":               "name=é",
		"backoff=schedule":                    "backoff=schedule",
		"backoff=constant(0) non_idempotent ": "backoff=constant(0) non_idempotent",
	} {
		p, err := parse(text)
		if got := format(p); err != nil || got != want {
			t.Errorf("Parse(%q) is %q, %v; want %q", text, got, err, want)
		}
	}
}

// What is below zero has no form of its own.
func TestNegativeTimesAreWrittenAsZero(t *testing.T) {
	for want, p := range map[string]retry.Policy{
		"":                           {MaxElapsed: -1, AttemptTimeout: -s, MaxRetryAfter: -s},
		"backoff=constant(0)":        {Backoff: retry.Constant(-s)},
		"backoff=linear":             {Backoff: retry.Linear{Base: -s, Jitter: retry.Jitter{Plus: -s}}},
		"backoff=linear jitter=full": {Backoff: retry.Linear{Jitter: retry.Jitter{High: 1, Plus: -s}}},
		"budget=ratio":               {Budget: &budget.Ratio{Window: -s}},
	} {
		if got := format(p); got != want {
			t.Errorf("Format(%+v) = %q, want %q", p, got, want)
		}
	}
}

// In each text the error is at the bar.
func TestPolicyTextErrorsPointAtTheColumn(t *testing.T) {
	for _, tt := range []struct{ text, says string }{
		{"|tries=3", `unknown field "tries": want one of name, attempts,`},
		{"name=ü |=3", `unknown field ""`},
		{"attempts|", "want = and a value after attempts"},
		{"attempts|(3)", "want = and a value after attempts"},
		{"attempts=|0", `"0": want attempts, 1 or more or unlimited`},
		{"attempts=|-1", `"-1": want`},
		{"attempts=|many", `"many": want`},
		{"attempts=1 |attempts=2", "attempts is here twice"},
		{"name=|", `want a name, such as fetch-user or "fetch user"`},
		{`name=|"x`, "no end"},
		{`name="x"|y`, "want a space here, or the end"},
		{"max_elapsed=|5", `"5": want a duration, such as`},
		{"attempt_timeout=|-5s", `"-5s": want a duration`},
		{"attempt_timeout=|-1ns", `"-1ns": want a duration`},
		{"max_retry_after=|", `"": want a duration`},
		{"non_idempotent|=true", "non_idempotent takes no value"},
		{"|timeout=2s", "; did you mean attempt_timeout?"},
		{"|max_attempts=2", "; did you mean attempts?"},
		{"|MaxAttempts=2", "; did you mean attempts?"},
		{"|maxRetryAfter=1m", "; did you mean max_retry_after?"},
		{"|retry-after=1m", "; did you mean max_retry_after?"},
		{"|elapsed=1m", "; did you mean max_elapsed?"},
		{"|retries=3", "; did you mean attempts, which counts the first one too?"},
		{"|maxRetries=3", "; did you mean attempts, which counts the first one too?"},
		{"|tries=2", "; did you mean attempts, which counts the first one too?"},
		{"|initial_delay=2", "; did you mean backoff?"},
		{"|deadline=2s", "; did you mean max_elapsed?"},
		{"|time=2s", "want one of name,"},
		{"|colour=red", "non_idempotent, budget"},
		{"backoff=|expo(1s)", `unknown backoff "expo": want one of exponential, linear, decorrelated, constant, schedule; did you mean exponential?`},
		{"|atempts=3", `max_retry_after, non_idempotent, budget; did you mean attempts?`},
		{"budget=|earnd", `want one of earned, token, ratio; did you mean earned?`},
		{"jitter=|ful", `between(0.5,1.5); did you mean full?`},
		{"backoff=exponential(1s,|2)", `"2": want a duration`},
		{"backoff=exponential(1s,2s,|x)", `"x": want a number`},
		{"backoff=exponential(1s,2s,|nan)", `"nan": want a number`},
		{"backoff=exponential(1s,2s,3,|4)", "too many arguments: want at most 3"},
		{"backoff=exponential(1s|", "want , or ) here"},
		{"backoff=exponential(1s |2s)", "want , or ) here"},
		{"backoff=exponential(|)", `"": want a duration`},
		{"backoff=exponential(1s)|)", "want a space here"},
		{"backoff=constant|", "want ( and a duration after constant"},
		{"throttle=constant| attempts=3", "want ( and a duration after constant"},
		{"backoff=schedule(1s,|)", `"": want a duration`},
		{"throttle=|x", `unknown backoff "x"`},
		{"jitter=|half", `unknown jitter "half": want full, equal, none, plusminus(0.2), plus(100ms) or between(0.5,1.5)`},
		{"jitter=plusminus|", "want ( and a number after plusminus"},
		{"jitter=between| attempts=2", "want ( and a number after between"},
		{"jitter=plus|", "want ( and a duration after plus"},
		{"jitter=plus(|0.2)", `"0.2": want a duration`},
		{"jitter=plusminus(|a)", `"a": want a number`},
		{"jitter=|equal backoff=constant(1s)", "only exponential and linear backoffs have a jitter"},
		{"throttle=schedule throttle_jitter=|full", "only exponential"},
		{"budget=|bucket", `unknown budget "bucket": want one of earned, token, ratio`},
		{"budget=earned|()", "earned has no arguments"},
		{"budget=earned|(3)", "earned has no arguments"},
		{"budget=earned|(", "earned has no arguments"},
		{"budget=earned |(3)", `unknown field ""`},
		{"budget=earned@|", "want the name of a budget after @"},
		{"budget=token(1)@| x", "want the name of a budget after @"},
		{"budget=|@x", `unknown budget ""`},
		{"backoff=linear|@x", "want a space here"},
		{"budget=token(|1.5)", `"1.5": want a whole number`},
		{"name=\"ü ü\" budget=|x", `unknown budget`},
	} {
		before, after, _ := strings.Cut(tt.text, "|")
		p, err := parse(before + after)
		if err == nil || !reflect.DeepEqual(p, retry.Policy{}) {
			t.Errorf("Parse(%q) = %v, %v, want an error", before+after, p, err)
			continue
		}
		if column := len([]rune(before)) + 1; column != columnOf(err) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Parse(%q): %v, want column %d: %s", before+after, err, column, tt.says)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want one line", err)
		}
	}
}

func TestCustomPartsHaveNoText(t *testing.T) {
	p := retry.Policy{Name: "x", Backoff: retry.BackoffFunc(nil), ThrottleBackoff: &retry.Exponential{}, Budget: &unlimited{}, Classify: retry.AlreadyRetried}
	text := format(p)
	if want := "name=x backoff=retry.BackoffFunc throttle=*retry.Exponential budget=*retryconf_test.unlimited"; text != want {
		t.Errorf("Format() = %q, want %q", text, want)
	}
	if _, err := parse(text); err == nil {
		t.Error("Parse takes the names of types")
	}
	for want, p := range map[string]retry.Policy{
		"a backoff of type *retry.Exponential has no text":       {Backoff: &retry.Exponential{}},
		"a throttle of type retry.BackoffFunc has no text":       {ThrottleBackoff: retry.BackoffFunc(nil)},
		"a budget of type *retryconf_test.unlimited has no text": {Budget: &unlimited{}},
	} {
		if b, err := (retryconf.Policy{Policy: p}).MarshalText(); b != nil || err == nil || err.Error() != "retryconf: "+want {
			t.Errorf("MarshalText() = %q, %v, want an error: %s", b, err, want)
		}
	}
}

// What can be read is written so that it is read again.
// columnOf returns the column that the text of err names, 0 if there is none.
func columnOf(err error) (column int) {
	_, _ = fmt.Sscanf(err.Error(), "retry policy %q, column %d: ", new(string), &column)
	return column
}

func FuzzParsePolicy(f *testing.F) {
	for _, tt := range texts {
		f.Add(tt.text)
	}
	f.Add("backoff=exponential( 1s , 0 ) jitter=between(0.1,.2)")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parse(text)
		if err != nil {
			if column := columnOf(err); column < 1 || column > len([]rune(text))+1 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("Parse(%q): %v", text, err)
			}
			return
		}
		written := format(p)
		again, err := parse(written)
		if err != nil || format(again) != written {
			t.Fatalf("%q is written as %q, which is %q, %v", text, written, format(again), err)
		}
		same(t, p, again)
	})
}

// A policy of any numbers is written as one that decides the same.
func FuzzFormatPolicy(f *testing.F) {
	f.Add("name", []byte("\x01\x02some bytes to make numbers of, twice eight of them"))
	f.Add("", []byte{})
	f.Add("fetch user", []byte{255: 9})
	f.Add("plus", bytes.Repeat([]byte{6, 0, 0, 0, 0, 0, 0, 255}, 40))
	f.Add("only plus", bytes.Repeat([]byte{8, 0, 0, 0, 0, 0, 0, 255}, 40))
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		next := func() uint64 {
			var word [8]byte
			b = b[copy(word[:], b):]
			return binary.LittleEndian.Uint64(word[:])
		}
		dur := func() time.Duration { return time.Duration(next()) }
		num := func() float64 { return math.Float64frombits(next()) }
		jitter := func() retry.Jitter {
			return []retry.Jitter{{}, retry.FullJitter, retry.EqualJitter, retry.NoJitter, retry.PlusMinus(num()), {Low: num(), High: num()}, retry.Plus(dur()), {Low: num(), High: num(), Plus: dur()}, {Plus: dur()}}[next()%9]
		}
		backoff := func() retry.Backoff {
			j := jitter()
			return []retry.Backoff{nil, retry.Exponential{Base: dur(), Max: dur(), Factor: num(), Jitter: j}, retry.Linear{Base: dur(), Max: dur(), Jitter: j},
				retry.Decorrelated{Base: dur(), Max: dur()}, retry.Constant(dur()), retry.Schedule{dur(), dur()}, retry.Schedule{}}[next()%8]
		}
		p := retry.Policy{
			Name: name, MaxAttempts: int(next()), MaxElapsed: dur(), AttemptTimeout: dur(), MaxRetryAfter: dur(),
			NonIdempotent: next()%2 == 1, Backoff: backoff(), ThrottleBackoff: backoff(),
		}
		p.Budget = []retry.Budget{nil, &retry.EarnedBudget{}, &budget.Token{Capacity: int(next()), Cost: int(next()), ThrottleCost: int(next()), Reward: int(next())},
			&budget.Ratio{Ratio: num(), MinPerSecond: num(), Window: dur()}}[next()%4]
		text := format(p)
		again, err := parse(text)
		if err != nil {
			t.Fatalf("Format(%+v) = %q: %v", p, text, err)
		}
		same(t, p, again)
	})
}

// same fails unless two policies decide the same.
func same(t *testing.T, p, q retry.Policy) {
	t.Helper()
	positive := func(d time.Duration) time.Duration { return max(d, 0) }
	if p.Name != q.Name || max(p.MaxAttempts, -1) != q.MaxAttempts || p.NonIdempotent != q.NonIdempotent ||
		positive(p.MaxElapsed) != q.MaxElapsed || positive(p.AttemptTimeout) != q.AttemptTimeout || positive(p.MaxRetryAfter) != q.MaxRetryAfter {
		t.Fatalf("%+v became %+v", p, q)
	}
	if (p.ThrottleBackoff == nil) != (q.ThrottleBackoff == nil) || reflect.TypeOf(p.Budget) != reflect.TypeOf(q.Budget) {
		t.Fatalf("%+v became %+v", p, q)
	}
	for _, b := range [][2]retry.Backoff{{p.Backoff, q.Backoff}, {p.ThrottleBackoff, q.ThrottleBackoff}} {
		for i := range b {
			if b[i] == nil {
				b[i] = retry.Exponential{}
			}
		}
		for n := range 20 {
			for _, r := range []float64{0, .3, .999} {
				step := retry.Step{Retry: n, Prev: time.Duration(n) * s, Rand: r}
				if want, got := b[0].Delay(step), b[1].Delay(step); got != want {
					t.Fatalf("%#v became %#v: %+v gives %v, want %v", b[0], b[1], step, got, want)
				}
			}
		}
	}
	if p.Budget == nil {
		return
	}
	if r, ok := p.Budget.(*budget.Ratio); ok && positive(r.Window) != q.Budget.(*budget.Ratio).Window {
		t.Fatalf("%+v became %+v", p.Budget, q.Budget)
	}
	p.Budget, q.Budget = full(p.Budget), full(q.Budget)
	for i := range 200 {
		class := []retry.Class{retry.Transient, retry.Throttled}[i%2]
		if want, got := p.Budget.Withdraw(retry.Withdrawal{Class: class, Retry: 1}), q.Budget.Withdraw(retry.Withdrawal{Class: class, Retry: 1}); got != want {
			t.Fatalf("%+v became %+v: Withdraw %d is %v, want %v", p.Budget, q.Budget, i, got, want)
		}
		if i%3 == 0 {
			p.Budget.End(retry.Outcome{OK: true})
			q.Budget.End(retry.Outcome{OK: true})
		}
	}
}

// full returns a new budget like b, whose window does not move while a test looks.
func full(b retry.Budget) retry.Budget {
	switch b := b.(type) {
	case *budget.Token:
		return &budget.Token{Capacity: b.Capacity, Cost: b.Cost, ThrottleCost: b.ThrottleCost, Reward: b.Reward}
	case *budget.Ratio:
		return &budget.Ratio{Ratio: b.Ratio, MinPerSecond: b.MinPerSecond, Window: time.Hour}
	}
	return new(retry.EarnedBudget)
}

// A nil pointer to a budget grants everything, as no budget does, and is written so.
func TestNilBudgetIsNone(t *testing.T) {
	for _, b := range []retry.Budget{(*retry.EarnedBudget)(nil), (*budget.Token)(nil), (*budget.Ratio)(nil)} {
		p := retryconf.Policy{Policy: retry.Policy{MaxAttempts: 2, Budget: b}}
		if text, err := p.MarshalText(); string(text) != "attempts=2" || err != nil {
			t.Errorf("%T: MarshalText() = %q, %v, want attempts=2", b, text, err)
		}
	}
}

// What code sets in a policy is not the text's: it stays. All else is replaced.
func TestUnmarshalTextKeepsWhatIsCode(t *testing.T) {
	random := func() float64 { return .25 }
	p := retryconf.Policy{Policy: retry.Policy{
		Name: "a", MaxAttempts: 9, NonIdempotent: true, Budget: &budget.Token{},
		Classify: retry.AlreadyRetried, Guards: []retry.Guard{new(pace.Pace)}, Rand: random, Clock: clockx.System(), Hooks: retry.Hooks{Done: func(context.Context, retry.Summary) {}},
	}}
	if err := p.UnmarshalText([]byte("attempts=4 backoff=fast")); err == nil || p.Name != "a" || p.MaxAttempts != 9 {
		t.Errorf("after an error, %v, the policy is %v, want what it was", err, p)
	}
	if err := p.UnmarshalText([]byte("max_elapsed=1s")); err != nil {
		t.Fatal(err)
	}
	if p.Classify == nil || p.Guards == nil || p.Rand == nil || p.Clock == nil || p.Hooks.Done == nil {
		t.Error("reading a text drops what is code")
	}
	if got := p.String(); got != "max_elapsed=1s" {
		t.Errorf("the policy is %q, want max_elapsed=1s alone", got)
	}
}

// A budget is spent for all policies that name it, and for the texts parsed later.
func TestOneBudgetForEachName(t *testing.T) {
	parsed := func(text string) retry.Budget {
		p, err := parse(text)
		if err != nil || format(p) != text {
			t.Errorf("%q is %q, %v", text, format(p), err)
		}
		return p.Budget
	}
	ledger := parsed("name=ledger budget=token(20)")
	for text, same := range map[string]bool{
		"name=ledger budget=token(20)":            true,
		"name=ledger attempts=9 budget=token(20)": true,
		"name=query budget=token(20)@ledger":      true,
		"budget=token(20)@ledger":                 true,
		"name=query budget=token(20)":             false,
		"name=ledger budget=token(21)":            false,
		"name=ledger budget=earned":               false,
		"name=ledger budget=token(20)@other":      false,
		"budget=token(20)":                        false,
	} {
		if got := parsed(text); (got == ledger) != same {
			t.Errorf("%q has the budget of ledger: %v, want %v", text, !same, same)
		}
	}
	if parsed("budget=earned") == parsed("budget=earned") {
		t.Error("two texts without a name share a budget")
	}
	if parsed("name=old budget=earned@ledger") != parsed("name=new budget=earned@ledger") {
		t.Error("a text with another name has lost the budget that it names")
	}
	if parsed("budget=earned@x") != parsed("name=y budget=earned@x") {
		t.Error("the same name has two budgets")
	}
	p, _ := parse("name=ledger budget=token(20)@ledger")
	if got := format(p); got != "name=ledger budget=token(20)" {
		t.Errorf("written as %q", got)
	}
	for _, name := range []string{"two words", `a"b`, "a(b)", "a@b", "=", "ü"} {
		p.Name, p.Budget = name, &budget.Token{Capacity: 20}
		made, err := parse(format(p))
		if err != nil {
			t.Fatal(err)
		}
		made.Name = "new"
		if again, err := parse(format(made)); err != nil || again.Budget != made.Budget {
			t.Errorf("%q has another budget: %v", format(made), err)
		}
	}
	p.Name, p.Budget = "ledger", &budget.Token{Capacity: 20}
	if got := format(p); got != "name=ledger budget=token(20)" {
		t.Errorf("a budget of the program's is written as %q", got)
	}
}

func format(p retry.Policy) string { return retryconf.Policy{Policy: p}.String() }

func TestPolicyInAMap(t *testing.T) {
	var policies map[string]retryconf.Policy
	const text = `{"orders":"attempts=4 budget=ratio(0.1)","users":""}`
	if err := json.Unmarshal([]byte(text), &policies); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(policies); string(again) != text || err != nil {
		t.Errorf("%s, %v, want %s", again, err, text)
	}
	err := json.Unmarshal([]byte(`{"orders":"attempts=0"}`), &policies)
	if err == nil || !strings.Contains(err.Error(), "column 10: ") {
		t.Errorf("%v, want an error at column 10", err)
	}
}
