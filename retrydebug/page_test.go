package retrydebug_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrydebug"
	"github.com/goretry/retry/retryhttp"
)

// element is a node of the document: an element, or a text if it has no name.
type element struct {
	name     string
	attrs    map[string]string
	children []*element
	text     string
	parent   *element
}

// parse reads a document, which closes what it opens.
func parse(t testing.TB, r io.Reader) *element {
	t.Helper()
	d := xml.NewDecoder(r)
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	root := &element{name: "document"}
	at := root
	for {
		token, err := d.Token()
		if err == io.EOF {
			if at != root {
				t.Fatalf("<%s> is not closed", at.name)
			}
			return root
		}
		if err != nil {
			t.Fatalf("the document: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}, parent: at}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			at.children = append(at.children, e)
			at = e
		case xml.EndElement:
			at = at.parent
		case xml.CharData:
			at.children = append(at.children, &element{text: string(token), parent: at})
		}
	}
}

// all returns the elements below e that have the name, "" for texts.
func (e *element) all(name string) (found []*element) {
	for _, c := range e.children {
		if c.name == name {
			found = append(found, c)
		}
		found = append(found, c.all(name)...)
	}
	return found
}

// words returns the text of e, with white space as it is seen.
func (e *element) words() string {
	var b strings.Builder
	for _, c := range e.all("") {
		b.WriteString(c.text + " ")
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestDocument(t *testing.T) {
	var page retrydebug.Recorder
	fill(t, &page, hostile)
	for _, query := range []string{"", "?window=10s", "?window=1h&refresh=off"} {
		w := get(t, &page, query)
		policy := w.Header().Get("Content-Security-Policy")
		doc := parse(t, w.Body)
		hashed := func(name, directive string) {
			t.Helper()
			found := doc.all(name)
			if off := strings.Contains(query, "off"); name == "script" && off {
				if len(found) != 0 {
					t.Errorf("%s: a script that renews a page that is paused", query)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("%s: %d of %s, want 1", query, len(found), name)
			}
			sum := sha256.Sum256([]byte(found[0].children[0].text))
			if want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, want) {
				t.Errorf("%s: the policy has not %s: %s", query, want, policy)
			}
		}
		hashed("style", "style-src")
		hashed("script", "script-src")
		if n := len(doc.all("noscript")); (n == 1) == strings.Contains(query, "off") {
			t.Errorf("%s: %d of noscript", query, n)
		}
		links := map[string]bool{}
		var walk func(*element)
		walk = func(e *element) {
			for name, value := range e.attrs {
				switch {
				case name == "href" && e.name == "a":
					links[value] = true
				case name == "style" || strings.HasPrefix(name, "on") || name == "src" || name == "href" || name == "action" || name == "srcset" || name == "data":
					t.Errorf("%s: <%s %s=%q>", query, e.name, name, value)
				}
			}
			if strings.Contains(e.text, hostile) && e.parent.name != "bdi" {
				t.Errorf("%s: a name or text in <%s>: %q", query, e.parent.name, e.text)
			}
			for _, c := range e.children {
				if slices.Contains([]string{"img", "link", "iframe", "object", "form", "base", "input"}, c.name) {
					t.Errorf("%s: <%s>", query, c.name)
				}
				walk(c)
			}
		}
		walk(doc)
		var hrefs []string
		for href := range links {
			hrefs = append(hrefs, href)
		}
		slices.Sort(hrefs)
		want := map[string][]string{
			"":                       {"?format=json", "?window=10s", "?window=1h", "?window=1m&refresh=off"},
			"?window=10s":            {"?format=json", "?window=10s&refresh=off", "?window=1h", "?window=1m"},
			"?window=1h&refresh=off": {"?format=json", "?window=10s&refresh=off", "?window=1h", "?window=1m&refresh=off"},
		}[query]
		if !slices.Equal(hrefs, want) {
			t.Errorf("%s: links %q, want %q", query, hrefs, want)
		}
		if n := strings.Count(doc.words(), hostile); n < 24 {
			t.Errorf("%s: the text is there %d times", query, n)
		}
	}
}

// hostile is a name and a text that would be something else if it was not escaped.
const hostile = `</script></bdi><img src=x onerror=alert(1)>'"&amp;{{.}}<!--`

// fill records everything that the page shows, with text as all names and texts.
func fill(t testing.TB, page *retrydebug.Recorder, text string) {
	t.Helper()
	page.Trace = func(context.Context) string { return text }
	page.ObserveBudget(text, observed{balance: .05})
	page.ObserveLimit(text, observed{inFlight: 3, places: 3})
	page.ObserveBreaker(text, observed{wait: ms})
	page.ObserveHedge(text, observed{wait: ms})
	page.ObservePace(text, observed{wait: ms})
	h := page.Hooks()
	p := retry.Policy{Name: text, Hooks: h, Backoff: retry.Constant(0)}
	err := errors.New(text)
	_ = retry.Run(t.Context(), p, func(context.Context) error { return err })
	expired, cancel := context.WithTimeoutCause(t.Context(), 0, err)
	defer cancel()
	_ = retry.Run(expired, p, nil0)
	ctx := h.Start(t.Context(), p)
	a := retry.Attempt{Number: 1, Start: time.Now()}
	h.Attempt(ctx, a)
	a.Err, a.Class, a.Delay, a.Hint = err, retry.Throttled, time.Hour, time.Second
	h.AttemptDone(ctx, a)
	h.Wait(ctx, a)
	for _, refusal := range []error{nil, err} { // a run that waits for a guard, and one that ended because of it
		ctx := h.Start(t.Context(), p)
		h.Guard(ctx, retry.Held{Name: text, Number: 1, Guard: text, Start: time.Now(), Delay: time.Hour, Err: refusal})
		if refusal != nil {
			h.Done(ctx, retry.Summary{Name: text, Reason: retry.ReasonGuard, Err: &retry.Error{Reason: retry.ReasonGuard, Cause: err}})
		}
	}
	keys := &retry.PerKey[balanced]{}
	keys.For(text)
	retrydebug.ObservePerKey(page, text+text, keys)
}

// An outage of permanent errors is one: a certificate has expired, a token was revoked. A few are
// what callers ask for.
func TestAnOutageOfPermanentErrors(t *testing.T) {
	expired := x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time is after the certificate's end"}
	for _, tt := range []struct {
		permanent, all int
		want           string
		bad            bool
	}{
		{200, 200, "100% of 200 runs failed in the last 5.00s. 1.00 attempts per run. pay fails in 100% of its runs: " + expired.Error() + " . They end with: permanent 100%.", true},
		{11, 100, "11% of 100 runs failed", true},
		{10, 100, "No run failed in the last", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var page retrydebug.Recorder
			for i := range tt.all {
				p, err := policy(&page, "pay"), error(nil)
				if i < tt.permanent {
					err = retry.Stop(expired)
				}
				run(p, err)
				time.Sleep(10 * ms)
			}
			time.Sleep(time.Second)
			body := get(t, &page, "").Body.String()
			if text := parse(t, strings.NewReader(body)).all("main")[0].words(); !strings.Contains(text, tt.want) {
				t.Errorf("%d of %d: %q is not in\n%s", tt.permanent, tt.all, tt.want, text)
			}
			if bad := strings.Contains(body, `class="headline bad"`); bad != tt.bad {
				t.Errorf("%d of %d: the headline is in colour: %t", tt.permanent, tt.all, bad)
			}
		})
	}
}

// Failures stay the headline when no run has ended since: the page takes a longer window.
func TestWindowWithoutRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		for range 3 {
			run(policy(&page, "pay"), errDown, errDown, errDown)
		}
		time.Sleep(5 * time.Second)
		run(policy(&page, "well"))
		for _, tt := range []struct {
			after            time.Duration
			query, want, not string
		}{
			{0, "?window=10s", "75% of 4 runs failed in the last 5.70s. 2.50 attempts per run.", "No run ended"},
			{11 * time.Second, "?window=10s", "75% of 4 runs failed in the last 16.7s. No run ended in the last ten seconds. 2.50 attempts per run. pay fails in 100% of its runs: connection refused", "No run failed"},
			{0, "", "75% of 4 runs failed in the last 16.7s. 2.50 attempts per run.", "No run ended"},
			{time.Minute, "", "75% of 4 runs failed in the last 1m16s. No run ended in the last minute.", "without a run"},
			{0, "?window=10s", "75% of 4 runs failed in the last 1m16s. No run ended in the last ten seconds.", "without a run"},
			{time.Hour, "", "No run ended in the last minute.", "failed in"},
		} {
			time.Sleep(tt.after)
			body := get(t, &page, tt.query).Body.String()
			doc := parse(t, strings.NewReader(body))
			text := doc.all("main")[0].words()
			if !strings.HasPrefix(text, tt.want) || strings.Contains(text, tt.not) {
				t.Errorf("%s: want %q first, and no %q:\n%s", tt.query, tt.want, tt.not, text)
			}
			if bad := strings.Contains(body, `class="headline bad"`); bad != strings.Contains(tt.want, "failed in") {
				t.Errorf("%s: the headline %q is in colour: %t", tt.query, tt.want, bad)
			}
			if b := doc.all("nav")[0].all("b")[0].words(); b != strings.TrimPrefix(cmp.Or(tt.query, "1m"), "?window=") {
				t.Errorf("%s: the chosen window is %s", tt.query, b)
			}
		}
	})
}

// A URL stands once for each operation, and what went wrong behind it each time.
func TestURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		const users, orders = "https://shop.example/v1/users", "https://shop.example/v1/orders"
		down := &retryhttp.StatusError{Code: 503, Method: "GET", URL: users}
		reset := fmt.Errorf("load: %w", &url.Error{Op: "Get", URL: users, Err: errors.New("EOF")})
		other := &url.Error{Op: "Post", URL: orders, Err: errDown}
		run(policy(&page, "one"), down, down, down)
		run(policy(&page, "two"), other, reset, reset)
		run(policy(&page, "two"), reset, reset, reset)
		ctx, cancel := context.WithCancel(t.Context())
		p := policy(&page, "one")
		p.MaxAttempts = retry.Unlimited
		go func() { _ = retry.Run(ctx, p, func(context.Context) error { return down }) }()
		time.Sleep(time.Second)
		defer synctest.Wait()
		defer cancel()
		text := parse(t, get(t, &page, "").Body).all("main")[0].words()
		for want, n := range map[string]int{
			"GET " + users + ": 503 Service Unavailable": 1,
			`load: Get "` + users + `": EOF`:             1,
			`Post "` + orders + `": connection refused`:  1,
			users:                     2,
			orders:                    1,
			"503 Service Unavailable": 8, // below the headline, in both tables, of what waits, and four times in the run that failed
		} {
			if got := strings.Count(text, want); got != n {
				t.Errorf("%q is there %d times, want %d:\n%s", want, got, n, text)
			}
		}
	})
}

func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		words := func(query string) string {
			t.Helper()
			return parse(t, get(t, &page, query).Body).all("main")[0].words()
		}
		has := func(query string, want ...string) {
			t.Helper()
			got := words(query)
			at := 0
			for _, w := range want { // in this order
				i := strings.Index(got[at:], w)
				if i < 0 {
					t.Fatalf("%q is not in, or not after the others:\n%s", w, got)
				}
				at += i
			}
		}
		has("", "Nothing is recorded yet", "Nothing underway")

		p := policy(&page, "")
		run(p.Named("idle"), errDown)
		time.Sleep(2 * time.Minute)
		has("", "No run failed in the last 2m00s. No run ended in the last minute. 100% needed retries.", "last 1h", "idle", "2m00s ago", "connection refused", "Nothing underway")
		for range 97 {
			run(p.Named("well"))
		}
		has("?window=10s", "No run failed in the last ten seconds. 1.00 attempts per run. Operations, last 10s", "well 0% 0% 100%")
		run(p.Named("well"), errDown)
		has("", "No run failed in the last minute. 1% needed retries. 1.01 attempts per run.", "well 0% 1% 99%")
		for range 3 {
			run(p.Named("worst"), errDown, errDown, retry.After(errDown, ms))
		}
		p.NonIdempotent = true
		run(p.Named("bad"), retry.ErrAttemptTimeout)
		run(p.Named("gone"), retry.Stop(errors.New("404")))
		empty, full := observed{balance: 0}, observed{inFlight: 20, places: 20, wait: 80 * ms}
		page.ObserveBudget("users", empty)
		page.ObserveBudget("orders", observed{balance: .04})
		page.ObserveBudget("rest", observed{balance: .6})
		page.ObserveLimit("database", full)
		page.ObserveLimit("cache", observed{inFlight: 2, places: math.MaxInt})
		page.ObserveBreaker("down", observed{wait: 2500 * ms})
		page.ObserveBreaker("up", observed{})
		page.ObserveTarget("large", observed{wait: 40 * time.Second})
		page.ObserveTarget("small", observed{})
		page.ObserveHedge("search", full)
		page.ObservePace("held", observed{balance: math.Inf(1), wait: time.Second})
		page.ObservePace("model", observed{balance: 4.25, wait: 3 * time.Second})
		page.ObservePace("open", new(pace.Pace))
		clock := clockx.NewVirtual(time.Now())
		known := &pace.Pace{Quota: 25}
		for i := range 250 {
			_ = retry.Run(t.Context(), retry.Policy{Clock: clock, Guards: []retry.Guard{known}, MaxAttempts: 1}, func(context.Context) error {
				if i%6 == 0 {
					return retry.After(errDown, 0)
				}
				return nil
			})
		}
		clock.Advance(time.Second)
		page.ObservePace("wrong", known)
		page.ObservePace("none", &pace.Pace{Quota: -1})
		known = &pace.Pace{Quota: 250}
		page.ObservePace("alone", known)
		sharing, end := context.WithCancel(t.Context())
		defer end()
		go known.Share(sharing, store{})
		synctest.Wait()
		page.ObservePace("right", &pace.Pace{Quota: 250})
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go func() {
			_ = retry.Run(ctx, policy(&page, "hangs"), func(ctx context.Context) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(2 * time.Second)
		asks := policy(&page, "asks")
		asks.MaxAttempts = retry.Unlimited
		go func() {
			_ = retry.Run(ctx, asks, func(ctx context.Context) error { return retry.After(errDown, time.Minute) })
		}()
		time.Sleep(500 * ms)
		has("",
			"5% of 103 runs failed in the last minute.",
			"<1% needed retries.",
			"worst fails in 100% of its runs: connection refused . They end with: max_attempts 100%.",
			"bad fails in 100% of its runs: retry: attempt timed out . They end with: not_idempotent 100%.",
			"The budget orders is almost used up.",
			"The budget users has too little left for a retry.",
			"The limit database is full: 20 of 20 places are taken.",
			"The breaker down is open: the next attempt may start in 2.50s.", "The target large rests for 40.0s: its calls are made elsewhere.",
			"The pace alone shares its quota with nobody: NOPERM this user has no permissions.",
			"The pace none admits nothing: pace: a Quota of -1 per 1s with a Burst of 0 makes no sense",
			"The pace wrong has 17% of its attempts throttled: the quota seems to be 20.8 a second, not 25.",
			"hangs has the oldest run underway: 2.50s.",
			"What attempts fail with, last 1m",
			"worst 3 connection refused throttled 3 2.52s ago",
			"bad 1 retry: attempt timed out timed_out retry.attempt_timeout 1 ",
			"worst 0 connection refused transient 6 2.63s ago",
			"Operations, last 1m",
			"worst 100% 0% 0%", "3.00", "max_attempts 100%", "connection refused",
			"bad 100% 0% 0%", "1.00", "not_idempotent 100%", "retry: attempt timed out",
			"gone 100% 0% 0%", "permanent 100%", "404",
			"well 0% 1% 99%", "1.01",
			"asks – – – 0", "1 (1 waiting)", "hangs – – – 0",
			"Budgets, limits, breakers, gates, targets, hedges, paces", "budget orders 4% left", "budget rest 60% left", "budget users 0% left",
			"limit cache 2 in flight, no limit", "limit database 20 of 20 in flight", "breaker down open, next attempt in 2.50s", "breaker up admits attempts", "target large rests for 40.0s", "target small does not rest", "hedge search after 80ms",
			"pace held holds all attempts for 1.00s", "pace model 4.25 attempts/s, one that comes now waits 3.00s", "pace none admits nothing", "pace open open", "pace right 250.00 attempts/s, one that comes now waits",
			"Underway: 2, 1 of them waiting",
			"2.50s hangs 1 of 3 attempting for 2.50s",
			"500ms asks 2 waiting, next try in 59.6s (the server asked for 1m00s) connection refused",
			"Last runs that failed",
			"worst connection refused max_attempts 230ms, 3 attempts, waited 200ms the last of 3 like it",
			"10ms connection refused · wait 100ms · 10ms connection refused · wait 100ms · 10ms connection refused (the server asked for 1.0ms)",
			"bad retry: attempt timed out not_idempotent 10ms, 1 attempt",
			"1 operation without a run in the last minute", "idle",
		)
		if got := words(""); strings.Contains(got, "rest has") || strings.Contains(got, "cache is full") || strings.Contains(got, "right is") || strings.Contains(got, "up is open") || strings.Contains(got, "small rests") {
			t.Errorf("what is well is complained about: %s", got)
		}
	})
}

// store is one that answers nothing.
type store struct{}

func (store) Reserve(context.Context, pace.Ask) (pace.Slots, error) {
	return pace.Slots{}, errors.New("NOPERM this user has no permissions.")
}

func (store) News(context.Context) <-chan struct{} { return nil }

// Bars are attempts and waits on one scale of time.
func TestBars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "op")
		p.MaxAttempts, p.Backoff = 2, retry.Constant(800*ms)
		_ = retry.Run(t.Context(), p, taking(100*ms, errDown, errDown)) // 1 s
		p.Backoff = retry.Constant(50 * ms)
		_ = retry.Run(t.Context(), p, taking(100*ms, errDown, errors.New("reset"))) // 250 ms
		p.MaxAttempts = 1
		_ = retry.Run(t.Context(), p, taking(0, errDown))
		var got []string
		for _, svg := range parse(t, get(t, &page, "").Body).all("svg") {
			if svg.attrs["class"] != "bar" {
				continue
			}
			var bars []string
			for _, r := range svg.all("rect") {
				bars = append(bars, strings.TrimSpace(fmt.Sprintf("%s %s+%s", r.attrs["class"], r.attrs["x"], r.attrs["width"])))
			}
			got = append(got, strings.Join(bars, ", "))
		}
		want := []string{
			"+1000, pause 0+250, attempt 0+100, attempt 150+100",
			"+1000, pause 0+1000, attempt 0+100, attempt 900+100",
			"+1000, pause 0+0, attempt 0+3",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		const legend = "Last runs that failed attempt that failed wait held back by a guard the whole width is 1.00s"
		doc := parse(t, get(t, &page, "").Body)
		if text := doc.all("main")[0].words(); !strings.Contains(text, legend) {
			t.Errorf("%q is not in\n%s", legend, text)
		}
		kinds := map[string]bool{}
		for _, ul := range doc.all("ul") {
			for _, r := range ul.all("rect") {
				kinds[r.attrs["class"]] = true
			}
		}
		for _, kind := range []string{"attempt", "pause", "guard"} {
			if !kinds[kind] {
				t.Errorf("the legend has no %s", kind)
			}
		}
	})
}

func TestChart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "op")
		p.MaxAttempts, p.Backoff = 2, retry.Constant(0)
		for range 30 {
			_ = retry.Run(t.Context(), p, nil0)
		}
		_ = retry.Run(t.Context(), p, taking(0, errDown))
		for range 10 {
			_ = retry.Run(t.Context(), p, taking(0, errDown, errDown))
		}
		time.Sleep(3 * time.Second)
		_ = retry.Run(t.Context(), p, nil0)
		var got []string
		for _, path := range parse(t, get(t, &page, "?window=10s").Body).all("path") {
			got = append(got, path.attrs["class"]+" "+path.attrs["d"])
		}
		// 41 runs are 20 high; one is never less than 1.
		want := []string{"first M78 22v-15M114 22v-1", "retried M78 7v-1", "failed M78 6v-5"}
		if !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		for query, bar := range map[string]string{"?window=10s": "1s", "": "5s", "?window=1h": "1m"} {
			doc := parse(t, get(t, &page, query).Body)
			text, most, scale := doc.all("main")[0].words(), "42", ""
			if bar == "1s" {
				most = "41"
			}
			for _, span := range doc.all("span") {
				if span.attrs["class"] == "scale" {
					scale += span.words()
				}
			}
			if want := "a bar is " + bar + ", the newest at the right"; !strings.Contains(text, want) || scale != most {
				t.Errorf("%s: the scale is %q, want %s and %q in\n%s", query, scale, most, want, text)
			}
		}
	})
}
