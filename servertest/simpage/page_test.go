package simpage

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/goretry/retry/servertest/internal/browser"
)

// set gives a control a value as a reader does, who chooses or types.
func set(t *testing.T, ctx context.Context, selector, value string) {
	t.Helper()
	js, _ := json.Marshal(value)
	browser.Ask[bool](t, ctx, fmt.Sprintf(`(c => { c.value = %s; c.dispatchEvent(new Event("input", {bubbles: true})); return true; })(document.querySelector('%s'))`, js, selector))
}

func value(t *testing.T, ctx context.Context, selector string) string {
	t.Helper()
	return browser.Ask[string](t, ctx, `document.querySelector('`+selector+`').value`)
}

// link returns the set-up that the page's address carries.
func link(t *testing.T, ctx context.Context) url.Values {
	t.Helper()
	address := browser.Ask[string](t, ctx, `location.href`)
	if shown := text(t, ctx, "link"); shown != address {
		t.Errorf("the link is %s at %s", shown, address)
	}
	_, fragment, _ := strings.Cut(address, "#")
	values, err := url.ParseQuery(fragment)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// scripted serves the page with an engine that does what a test wants: play is its body.
func scripted(t *testing.T, play string) (address, host string) {
	t.Helper()
	files := http.FileServer(http.Dir("../../retrysim/page"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/engine.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprintf(w, "export async function* play(link, signal) {%s}", play)
			return
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/", strings.TrimPrefix(server.URL, "http://")
}

// answers is the start of a scripted engine that knows one good scene.
const answers = `const row = {policy: "p", seeds: 1, stays_down: 0, lost_share: .5, load: 1, p99_ms: 134.4, verdict: "for " + link, recovers: true};
	const scene = {seeds: 1, of: 1, done: true, title: "t", answer: {rows: [row, row], choose: "c"}, notes: [], pictures: [], command: "", policy: {text: "", go: ""}};
`

// The policy's text is the truth: controls replace their own word.
func TestPolicyText(t *testing.T) {
	address, host := scripted(t, answers+`yield scene;`)
	ctx := browser.Start(t, host)
	for _, tt := range []struct{ before, control, choice, after string }{
		{"attempts=4", "attempts", "8", "attempts=8"},
		{"attempts=4 max_elapsed=5s", "attempts", "", "max_elapsed=5s"},
		{"max_elapsed=5s", "attempts", "unlimited", "max_elapsed=5s attempts=unlimited"},
		{"", "budget", "earned", "budget=earned"},
		{`name="a attempts=9 \" budget=x" attempts=4  jitter=none`, "attempts", "3", `name="a attempts=9 \" budget=x" attempts=3  jitter=none`},
		{`name="a budget=x"`, "budget", "token", `name="a budget=x" budget=token`},
		{"name=`b budget=x`", "budget", "ratio", "name=`b budget=x` budget=ratio"},
		{"max_attempts=7 throttle=constant(1s) backoff=linear(1s, 2s) budget=earned", "backoff", "constant(0)", "max_attempts=7 throttle=constant(1s) backoff=constant(0) budget=earned"},
		{"backoff=constant(0) budget=ratio(0.2)", "backoff", "", "budget=ratio(0.2)"},
		{"name=x budget=token attempts=2", "budget", "", "name=x attempts=2"},
	} {
		open(t, ctx, address, url.Values{"policy": {tt.before}}.Encode())
		if got := value(t, ctx, "[name=policy]"); got != tt.before {
			t.Fatalf("the text is %q, want %q", got, tt.before)
		}
		set(t, ctx, "[data-field="+tt.control+"]", tt.choice)
		if got := value(t, ctx, "[name=policy]"); got != tt.after {
			t.Errorf("%s with %s=%s is %q, want %q", tt.before, tt.control, tt.choice, got, tt.after)
		}
		if got := link(t, ctx).Get("policy"); got != tt.after {
			t.Errorf("the link has %q, want %q", got, tt.after)
		}
	}
	// The controls follow the text, and get what they could not show.
	set(t, ctx, "[name=policy]", "attempts=12 backoff=schedule(1s, 2s) budget=ratio(0.2,-1)")
	for field, want := range map[string]string{"attempts": "12", "backoff": "schedule(1s, 2s)", "budget": "ratio(0.2,-1)"} {
		if got := value(t, ctx, "[data-field="+field+"]"); got != want {
			t.Errorf("%s shows %q, want %q", field, got, want)
		}
	}
}

// The link carries the policy and what differs, and restores all of it.
func TestLink(t *testing.T) {
	address, host := scripted(t, answers+`yield scene;`)
	ctx := browser.Start(t, host)
	open(t, ctx, address, "")
	if got := link(t, ctx); len(got) != 1 || got.Get("policy") != "attempts=4 backoff=exponential(100ms,10s)" {
		t.Errorf("at first the link carries %v", got)
	}
	set(t, ctx, "[name=outage]", "7s")
	set(t, ctx, "[name=lost]", "0.05")
	set(t, ctx, "[name=abandoned]", "dropped")
	browser.Do(t, ctx, chromedp.Click("[name=shared]"))
	set(t, ctx, "#others", "spike=400/s\n\n policy=attempts=2 budget=ratio\nseeds=3")
	want := url.Values{"policy": {"attempts=4 backoff=exponential(100ms,10s)", "attempts=2 budget=ratio"}, "outage": {"7s"},
		"lost": {"0.05"}, "abandoned": {"dropped"}, "shared": {"true"}, "spike": {"400/s"}, "seeds": {"3"}}.Encode()
	if got := link(t, ctx).Encode(); got != want {
		t.Errorf("the link carries %s, want %s", got, want)
	}
	set(t, ctx, "[name=outage]", "3s")
	if got := link(t, ctx); got.Has("outage") {
		t.Errorf("the link carries %v, of which the outage is the default", got)
	}
	controls := `JSON.stringify([[...document.querySelectorAll("form [name], form textarea, form [data-field]")].map(c => [c.name, c.type === "checkbox" ? c.checked : c.value]),
		[...document.querySelectorAll("[type=range]")].map(s => [s.value, s.ariaValueText ?? s.getAttribute("aria-valuetext")])])`
	const set1 = "policy=budget%3Dearned&outage=7s&outage-answer=503&rate=151%2Fs&shared=true&policy=attempts%3D2&discipline=odd&hedge=1s&queue=-1"
	open(t, ctx, address, set1)
	first := browser.Ask[string](t, ctx, controls)
	values, _ := url.ParseQuery(set1)
	if got := link(t, ctx).Encode(); got != values.Encode() {
		t.Errorf("the link carries %s, want %s", got, values.Encode())
	}
	if got := value(t, ctx, "#others"); got != "policy=attempts=2\nhedge=1s" {
		t.Errorf("the others are %q", got)
	}
	if got := value(t, ctx, "[name=discipline]") + value(t, ctx, "[name=rate]") + value(t, ctx, "[name=outage-answer]"); got != "odd151/s503" {
		t.Errorf("the controls show %q", got)
	}
	if got := browser.Ask[string](t, ctx, `document.querySelector("[name=rate]").parentElement.querySelector("[type=range]").getAttribute("aria-valuetext")`); got != "151/s" {
		t.Errorf("the slider says %q", got)
	}
	// Another fragment, and back.
	browser.Do(t, ctx, chromedp.Evaluate(`location.hash = "#policy=attempts%3D4&processes=3"`, nil))
	browser.Eventually(t, ctx, `document.querySelector("[name=processes]").value === "3"`)
	if got := link(t, ctx); len(got) != 2 || value(t, ctx, "#others") != "" || browser.Ask[bool](t, ctx, `document.querySelector("[name=shared]").checked`) {
		t.Errorf("of the set-up before is left: %v", got)
	}
	browser.Do(t, ctx, chromedp.Evaluate(`location.hash = "#`+set1+`"`, nil))
	browser.Eventually(t, ctx, `document.querySelector("[name=outage]").value === "7s"`)
	if again := browser.Ask[string](t, ctx, controls); again != first {
		t.Errorf("the controls are\n%s\nand were\n%s", again, first)
	}
}

// A change ends the run under way, and nothing of it is shown any more.
func TestLateScenes(t *testing.T) {
	// A run of this engine ends when the test says so, whatever becomes of the signal.
	address, host := scripted(t, answers+`(window.runs ??= {})[link] = signal;
		if (await new Promise(resolve => { (window.release ??= {})[link] = resolve; })) throw new Error("late");
		yield {...scene, done: false, of: 2};
		await new Promise(resolve => { window.release[link] = resolve; });
		yield {...scene, seeds: 2, of: 2};`)
	ctx := browser.Start(t, host)
	open(t, ctx, address, "policy=attempts%3D1")
	begun := func(n int) string { return fmt.Sprintf(`"policy=attempts%%3D%d" in (window.release ?? {})`, n) }
	release := func(n int) { browser.Ask[bool](t, ctx, fmt.Sprintf(`(release["policy=attempts%%3D%d"](), true)`, n)) }
	breaks := func(n int) {
		browser.Ask[bool](t, ctx, fmt.Sprintf(`(release["policy=attempts%%3D%d"](true), true)`, n))
	}
	state := `document.querySelector("#state").textContent`
	browser.Eventually(t, ctx, begun(1))
	if !browser.Ask[bool](t, ctx, `results.ariaBusy === "true"`) {
		t.Error("not busy before the first scene")
	}
	release(1)
	browser.Eventually(t, ctx, state+` === "✓ for policy=attempts%3D1" && results.ariaBusy === "false" && document.querySelector("#runs").textContent === "1 of 2 runs"`)
	set(t, ctx, "[data-field=attempts]", "2")
	browser.Eventually(t, ctx, begun(2))
	if !browser.Ask[bool](t, ctx, `runs["policy=attempts%3D1"].aborted && !runs["policy=attempts%3D2"].aborted && results.ariaBusy === "true" && getComputedStyle(results).opacity < 1`) {
		t.Error("the run before is not ended, or its answer is not pale")
	}
	if got := text(t, ctx, "state"); got != "✓ for policy=attempts%3D1" {
		t.Errorf("the last answer is gone: %q", got)
	}
	release(1) // its second scene comes late
	browser.Do(t, ctx, chromedp.Sleep(200*time.Millisecond))
	if !browser.Ask[bool](t, ctx, `results.ariaBusy === "true"`) {
		t.Error("a late scene is taken for the first of the new run")
	}
	set(t, ctx, "[data-field=attempts]", "3")
	browser.Eventually(t, ctx, begun(3))
	release(3)
	browser.Eventually(t, ctx, state+` === "✓ for policy=attempts%3D3"`)
	release(3)
	browser.Eventually(t, ctx, `document.querySelector("#runs").textContent === "2 runs"`)
	release(2)
	browser.Do(t, ctx, chromedp.Sleep(200*time.Millisecond)) // in which it could be shown
	if got := text(t, ctx, "state"); got != "✓ for policy=attempts%3D3" {
		t.Errorf("a late scene is shown: %q", got)
	}
	set(t, ctx, "[data-field=attempts]", "4")
	browser.Eventually(t, ctx, begun(4))
	set(t, ctx, "[data-field=attempts]", "5")
	browser.Eventually(t, ctx, begun(5))
	breaks(4)
	browser.Do(t, ctx, chromedp.Sleep(200*time.Millisecond))
	if got := text(t, ctx, "error"); got != "" {
		t.Errorf("a late error is shown: %q", got)
	}
	if got := browser.Ask[string](t, ctx, `document.querySelector("#rows td:last-child").textContent`); got != "134 ms" {
		t.Errorf("the slowest take %q", got)
	}
}

// An answer that ends before it is done is an error.
func TestBrokenAnswer(t *testing.T) {
	address, host := scripted(t, answers+`yield {...scene, done: false};`)
	ctx := browser.Start(t, host)
	open(t, ctx, address, "")
	browser.Eventually(t, ctx, `document.querySelector("#error").textContent === "The simulation was cut short."`)
}

func TestErrors(t *testing.T) {
	address, host := serve(t)
	ctx := browser.Start(t, host, "status of 413")
	open(t, ctx, address, "rate=20&seeds=2")
	settled(t, ctx)
	rows := browser.Ask[string](t, ctx, `document.querySelector("#rows").textContent`)
	for _, tt := range []struct{ control, wrong, error string }{
		{"[name=rate]", "fast", "-rate: want a number"},
		{"[name=rate]", "", "-rate: want a number"},
		{"[name=policy]", "attempts=4 budget=none", `-policy: retry policy "attempts=4 budget=none", column 19`},
		{"[data-field=attempts]", "0", "-policy: retry policy "},
		{"[name=processes]", "10001", "-processes: want at most 10000 processes here"},
		{"#others", "speed=3", "-speed: no such flag"},
		{"#others", "hedge=never", "-hedge: want a delay"},
		{"#others", "policy=" + strings.Repeat("x", 16<<10), "the link has more than 16384 bytes"},
	} {
		before := value(t, ctx, tt.control)
		set(t, ctx, tt.control, tt.wrong)
		browser.Eventually(t, ctx, `document.querySelector("#error").textContent !== ""`)
		if got := text(t, ctx, "error"); !strings.HasPrefix(got, tt.error) {
			t.Errorf("%s %.40s: %q, want %q", tt.control, tt.wrong, got, tt.error)
		}
		wrong := browser.Ask[[]string](t, ctx, `[...document.querySelectorAll("[aria-invalid=true]")].map(c => c.name || c.id)`)
		want := strings.Trim(strings.TrimPrefix(tt.control, "[name="), "#]")
		if strings.HasPrefix(want, "[data-field") {
			want = "policy"
		}
		if strings.HasPrefix(tt.error, "-") && !slices.Equal(wrong, []string{want}) || !strings.HasPrefix(tt.error, "-") && len(wrong) > 0 {
			t.Errorf("%s: marked are %q, want %q", tt.error, wrong, want)
		}
		if !browser.Ask[bool](t, ctx, `document.querySelector("#error").checkVisibility() && document.querySelector("#error").getAttribute("role") === "alert"`) {
			t.Error("the error is not seen")
		}
		if got := browser.Ask[string](t, ctx, `document.querySelector("#rows").textContent`); got != rows {
			t.Errorf("the last answer is gone: %q", got)
		}
		if tt.wrong == "fast" {
			browser.Picture(t, ctx, "error")
		}
		set(t, ctx, tt.control, before)
		browser.Eventually(t, ctx, done+` && document.querySelector("#error").textContent === "" && !document.querySelector("[aria-invalid]")`)
	}
}

// Texts of a link stay texts, in a browser that would run what they are.
func TestHostileTexts(t *testing.T) {
	address, host := serve(t)
	ctx := browser.Start(t, host)
	for _, name := range []string{`<img src=x onerror=alert(1)>`, `</title></svg><script>alert(1)</script>`, `"'><svg onload=alert(1)>`, `</text><h1>gone</h1>`, `a<!--`} {
		quoted, _ := json.Marshal(name) // as Go quotes it, but for < and >
		quoted = []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(quoted)))
		policy := "name=" + string(quoted) + " attempts=2"
		open(t, ctx, address, url.Values{"policy": {policy}, "rate": {"20"}, "seeds": {"1"}, "hedge": {"1s"}}.Encode())
		settled(t, ctx)
		if got := browser.Ask[string](t, ctx, `document.querySelector("#rows .yours td").textContent`); got != name+" (yours)" {
			t.Errorf("the name is shown as %q, want %q", got, name)
		}
		if got := browser.Ask[[]string](t, ctx, `[...document.querySelectorAll("#pictures svg > title")].map(t => t.textContent)`); !slices.Contains(got, name) {
			t.Errorf("%q is none of the pictures' titles %q", name, got)
		}
		if n := browser.Ask[int](t, ctx, `document.querySelectorAll("img, h1, script, [onload], [onerror]").length`); n != 2 { // a heading and the page's script
			t.Errorf("%q has changed the document", name)
		}
		checkAnswer(t, ctx)
	}
	policy := browser.Ask[string](t, ctx, `document.querySelector("meta[http-equiv=Content-Security-Policy]").content`)
	for _, want := range []string{"default-src 'none'", "script-src 'self' 'wasm-unsafe-eval'", "connect-src 'self'", "style-src 'self' 'unsafe-inline'"} {
		if !slices.Contains(strings.Split(policy, "; "), want) {
			t.Errorf("the policy %q lacks %s", policy, want)
		}
	}
	long := strings.Repeat("é", 45)
	open(t, ctx, address, url.Values{"policy": {`name="` + long + `"`}, "rate": {"20"}, "seeds": {"1"}}.Encode())
	settled(t, ctx)
	heading := browser.Ask[string](t, ctx, `document.querySelectorAll("#pictures svg")[1].querySelector("text .head").textContent`)
	if title := browser.Ask[string](t, ctx, `document.querySelectorAll("#pictures svg")[1].querySelector("title").textContent`); heading != long || title != long {
		t.Errorf("the picture's heading is %q, and its title %q", heading, title)
	}
}

// Names, live regions, keys, contrast; and screens of all widths.
func TestAccess(t *testing.T) {
	address, host := serve(t)
	ctx := browser.Start(t, host)
	open(t, ctx, address, "policy=attempts%3D4+max_retry_after%3D5m+throttle%3Dexponential(100ms,10s)+throttle_jitter%3Dplusminus(0.25)&policy=name%3D"+strings.Repeat("wide", 20)+"&seeds=1")
	settled(t, ctx)
	nameless := browser.Ask[[]string](t, ctx, `[...document.querySelectorAll("input, select, textarea, button")].filter(c => !(c.ariaLabel || c.labels[0]?.textContent.trim())).map(c => c.outerHTML)`)
	if len(nameless) > 0 {
		t.Errorf("without a label: %q", nameless)
	}
	if n := browser.Ask[int](t, ctx, `[...document.querySelectorAll("[data-steps]")].filter(box => !box.parentElement.querySelector("[type=range][aria-valuetext][aria-label]")).length`); n != 0 {
		t.Errorf("%d text boxes have no slider that says its value", n)
	}
	if n := browser.Ask[int](t, ctx, `document.querySelectorAll("#state[role=status], #why[role=status], #error[role=alert]").length`); n != 3 {
		t.Errorf("%d live regions, want 3", n)
	}
	if ids := browser.Ask[[]string](t, ctx, `"state why error title rows choose pictures notes results link text go command others".split(" ").filter(id => !document.getElementById(id))`); len(ids) > 0 {
		t.Errorf("there is no %q", ids)
	}
	for _, scheme := range []string{"light", "dark"} {
		browser.Do(t, ctx, browser.Look(scheme))
		for _, selector := range []string{"body", "a", "small", "th", ".good", ".bad", "#notes", "#title", "legend", "#rows .yours td", "button", "pre", "[name=rate]"} {
			if ratio := browser.Contrast(t, ctx, selector); ratio < 4.5 {
				t.Errorf("%s, %s: a contrast of %.1f, want at least 4.5", scheme, selector, ratio)
			}
		}
	}
	for _, width := range []int64{320, 390, 600, 800, 900, 1280, 1920} {
		browser.Do(t, ctx, chromedp.EmulateViewport(width, 800), chromedp.Evaluate(`scrollTo(0, 0)`, nil))
		if wide := browser.Ask[int64](t, ctx, `document.documentElement.scrollWidth`); wide > width {
			t.Errorf("the page is %d pixels wide on a screen of %d: %q", wide, width, browser.Ask[[]string](t, ctx,
				`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.outerHTML.slice(0, 80))`))
		}
		hidden := browser.Ask[[]string](t, ctx, `[...document.querySelectorAll("[type=range]")].filter(slider => {
			slider.scrollIntoView({block: "center"});
			const box = document.querySelector("#state").getBoundingClientRect();
			return box.top < 0 || box.bottom > innerHeight || box.bottom > slider.getBoundingClientRect().top && box.right > slider.getBoundingClientRect().left && box.left < slider.getBoundingClientRect().right;
		}).map(slider => slider.ariaLabel)`)
		if len(hidden) > 0 {
			t.Errorf("on a screen of %d the verdict is not seen beside %q", width, hidden)
		}
		browser.Do(t, ctx, chromedp.Evaluate(`scrollTo(0, 0)`, nil))
		if width < 400 {
			browser.Picture(t, ctx, fmt.Sprint("phone-", width))
		}
	}
	// With keys alone: the first slider.
	browser.Do(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Focus("[type=range]"), chromedp.KeyEvent(kb.ArrowRight))
	browser.Eventually(t, ctx, `document.querySelector("[data-field=attempts]").value === "5" && document.activeElement.getAttribute("aria-valuetext") === "5"`)
	settled(t, ctx)
	if got := link(t, ctx).Get("policy"); !strings.HasPrefix(got, "attempts=5 ") {
		t.Errorf("the key leads to %s", got)
	}
	checkAnswer(t, ctx)
	reached := 0
	browser.Do(t, ctx, chromedp.Evaluate(`document.activeElement.blur(), scrollTo(0, 0)`, nil))
	for range 80 {
		browser.Do(t, ctx, chromedp.KeyEvent(kb.Tab))
		reached += browser.Ask[int](t, ctx, `(e => e.seen ? 0 : (e.seen = true, e.matches("input, select, textarea, button") ? 1 : 0))(document.activeElement)`)
	}
	if n := browser.Ask[int](t, ctx, `[...document.querySelectorAll("input, select, textarea, button")].filter(e => e.checkVisibility()).length`); reached != n {
		t.Errorf("the tab key reaches %d of %d controls", reached, n)
	}
}

// On a phone the results come before all sliders, and a button leads to these.
func TestPhone(t *testing.T) {
	address, host := serve(t)
	ctx := browser.Start(t, host)
	browser.Do(t, ctx, chromedp.EmulateViewport(375, 800))
	open(t, ctx, address, "seeds=1")
	settled(t, ctx)
	browser.Picture(t, ctx, "phone")
	browser.Do(t, ctx, browser.Look("light"), chromedp.EmulateViewport(375, 800))
	browser.Shaded(t, ctx, `document.querySelector("#table")`)
	browser.Do(t, ctx, chromedp.Evaluate(`scrollTo(0, 0)`, nil))
	const below = `(id => document.getElementById(id).getBoundingClientRect().bottom)`
	first := browser.Ask[float64](t, ctx, `document.querySelector("[type=range]").getBoundingClientRect().top`)
	for _, id := range []string{"state", "why", "title", "table", "choose", "pictures", "notes"} {
		if bottom := browser.Ask[float64](t, ctx, below+`("`+id+`")`); bottom <= 0 || bottom > first {
			t.Errorf("#%s ends at %v, and the first slider is at %v", id, bottom, first)
		}
	}
	if bottom := browser.Ask[float64](t, ctx, below+`("table")`); bottom > 800 {
		t.Errorf("the table ends at %v, and 800 pixels are seen", bottom)
	}
	browser.Do(t, ctx, chromedp.Click("#change"))
	browser.Eventually(t, ctx, `(top => top > document.querySelector("#verdict").getBoundingClientRect().bottom && top < 500)(document.querySelector("[type=range]").getBoundingClientRect().top)`)
	browser.Picture(t, ctx, "phone-sliders")
	browser.Do(t, ctx, chromedp.EmulateViewport(1280, 900))
	if browser.Ask[bool](t, ctx, `document.querySelector("#change").checkVisibility()`) {
		t.Error("beside the sliders there is a button that leads to them")
	}
}

// What is taken along is what a button copies.
func TestCopy(t *testing.T) {
	address, host := serve(t)
	ctx := browser.Start(t, host)
	open(t, ctx, address, "policy=attempts%3D3+budget%3Dearned&rate=20&seeds=1")
	settled(t, ctx)
	browser.Do(t, ctx, cdpbrowser.GrantPermissions([]cdpbrowser.PermissionType{cdpbrowser.PermissionTypeClipboardReadWrite, cdpbrowser.PermissionTypeClipboardSanitizedWrite}))
	for id, want := range map[string]string{
		"link":    address + "#policy=attempts%3D3+budget%3Dearned&rate=20&seeds=1",
		"text":    "attempts=3 budget=earned",
		"go":      "retry.Policy{\n\tMaxAttempts: 3,\n\tBudget:      &retry.EarnedBudget{},\n}",
		"command": "retrysim try -policy 'attempts=3 budget=earned' -policy 'name=\"no budget\" attempts=3' -rate 20 -seeds 1",
	} {
		browser.Do(t, ctx, chromedp.Click(`[data-copy=`+id+`]`))
		browser.Eventually(t, ctx, `document.querySelector("[data-copy=`+id+`]").textContent === "Copied"`)
		var got string
		browser.Do(t, ctx, chromedp.Evaluate(`navigator.clipboard.readText()`, &got, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		if got != want || text(t, ctx, id) != want {
			t.Errorf("%s: copied is %q, want %q", id, got, want)
		}
	}
}

// The same page as static files, which simulates in the browser.
func TestStaticPage(t *testing.T) {
	browser.Chromium(t)
	folder := t.TempDir()
	c := exec.Command("make", "--no-print-directory", "page", "PAGE="+folder)
	c.Dir = "../.."
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	size := int64(0)
	if err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(filepath.Join(folder, path))
		size += info.Size()
		return err
	}); err != nil || size > 8<<20 || size < 1<<20 {
		t.Errorf("%v, %d bytes, want at most 8 MiB", err, size)
	}
	files := httptest.NewServer(http.FileServer(http.Dir(folder)))
	defer files.Close()
	ctx := browser.Start(t, strings.TrimPrefix(files.URL, "http://"))
	count := `window.workers = 0; window.Worker = class extends Worker {
		constructor(...args) { super(...args); workers++; }
		terminate() { super.terminate(); workers--; }
	}`
	browser.Do(t, ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(count).Do(ctx)
		return err
	}))
	open(t, ctx, files.URL+"/", "policy=attempts%3D4+budget%3Dtoken&rate=20&seeds=6&failure=0")
	settled(t, ctx)
	checkAnswer(t, ctx)
	// A change ends a run that would take minutes.
	set(t, ctx, "[name=rate]", "250")
	set(t, ctx, "[name=policy]", "attempts=90 backoff=constant(0)")
	set(t, ctx, "#others", "seeds=20\nduration=10m")
	browser.Eventually(t, ctx, `results.ariaBusy === "true" && workers === 1`)
	set(t, ctx, "[name=rate]", "fast")
	browser.Eventually(t, ctx, `document.querySelector("#error").textContent.startsWith("-rate: want a number")`)
	browser.Do(t, ctx, chromedp.Sleep(time.Second))
	if n := browser.Ask[int](t, ctx, `workers`); n != 0 {
		t.Errorf("%d workers go on", n)
	}
	set(t, ctx, "#others", "seeds=1")
	set(t, ctx, "[name=rate]", "10")
	settled(t, ctx)
	checkAnswer(t, ctx)
}
