package clienterr

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/goretry/retry/internal/clienterr/oracle"
)

// Each phrase of words.tsv means what its row says, however a code writes it.
func TestPhrases(t *testing.T) {
	for _, row := range rowsOf(t, "words") {
		f, err := row.Facts()
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(row.Code, "^ "), " $"))
		want := map[string]Facts{"permanent": Facts(Permanent), "transient": Facts(Transient), "timed_out": Facts(TimedOut), "throttled": Facts(Throttled)}[f.Class]
		if f.Session || row.Code == "unknown" { // for the way to a server; at the end it says nothing
			want = 0
		}
		camel := ""
		for _, word := range words {
			camel += strings.ToUpper(word[:1]) + word[1:]
		}
		for _, code := range []string{strings.Join(words, "_"), strings.ToUpper(strings.Join(words, "-")), camel} {
			if got := phrases(code); got != want {
				t.Errorf("%s is %b, want %b", code, got, want)
			}
		}
		if f.Session && phrases(words[0]+"_not_found") != 0 {
			t.Errorf("%s does not excuse what is not found", words[0])
		}
	}
}

// The phrases of statuses are those of net/http.
func TestPhrasesOfStatuses(t *testing.T) {
	k := &Type{}
	for n := 400; n <= 599; n++ {
		if phrase := http.StatusText(n); phrase != "" && n != 418 && n != 506 && n != 510 {
			text := fmt.Sprintf("x: %d %s.", n, phrase)
			if got, own := k.statusIn(text, reflect.ValueOf(errors.New(""))); got != n || own {
				t.Errorf("%s: %d, %t", text, got, own)
			}
		}
	}
}

// Forget makes a vendor's errors unknown, and what it returns makes them known again.
func TestForget(t *testing.T) {
	before := rulesFor("github.com/snowflakedb/gosnowflake", "SnowflakeError")
	restore := Forget("snowflake")
	if got := rulesFor("github.com/snowflakedb/gosnowflake", "SnowflakeError"); got != nil || snowflakeCodes.number(390100) != 0 {
		t.Errorf("a forgotten vendor has the rules %v", got)
	}
	restore()
	if got := rulesFor("github.com/snowflakedb/gosnowflake", "SnowflakeError"); len(got) != len(before) || snowflakeCodes.number(390100).Class() != Permanent {
		t.Errorf("a vendor that is known again has the rules %v", got)
	}
	all, err := oracle.Types()
	if err != nil {
		t.Fatal(err)
	}
	for _, forgotten := range all {
		if forgotten.Rules[0].Table == "" {
			continue
		}
		restore := Forget(forgotten.Rules[0].Table)
		for _, other := range all { // without a table
			if pkg, name := other.Packages[0], other.Names[0]; other.Rules[0].Kind == "always" && rulesFor(pkg, name) == nil {
				t.Errorf("with %v, %s.%s is forgotten", forgotten.Rules[0].Table, pkg, name)
			}
		}
		restore()
	}
}

func FuzzUnlisted(f *testing.F) {
	all, err := oracle.Tables()
	if err != nil {
		f.Fatal(err)
	}
	for _, table := range all {
		if len(table.Rows) > 3 {
			f.Add(table.Rows[2].Code + " " + table.Rows[3].Name)
		}
	}
	f.Add("HTTP status 404, 503 Service Unavailable: KDC_ERR_POLICY")
	f.Fuzz(func(t *testing.T, text string) {
		k := &Type{}
		if status, own := k.statusIn(text, reflect.ValueOf(errors.New(text))); own || status != 0 && (status < 400 || status > 599) {
			t.Errorf("%q shows the status %d, %t", text, status, own)
		}
		if f := constants(text); f.Class() > Throttled || f&^classBits != 0 {
			t.Errorf("%q is %b", text, f)
		}
		if f := phrases(text); f != phrases(strings.ReplaceAll(text, "_", "-")) || f.Class() > Throttled || f&^classBits != 0 {
			t.Errorf("%q is %b", text, f)
		}
	})
}

// A field that holds itself has no value.
func TestAFieldThatHoldsItself(t *testing.T) {
	var code any
	code = &code
	err := struct{ Code any }{code}
	if v := value(Field(reflect.ValueOf(err), "Code")); number(v) != 0 || text(v) != "" {
		t.Errorf("its value is %v", v)
	}
}
