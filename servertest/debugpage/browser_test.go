package debugpage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrydebug"
	"github.com/goretry/retry/servertest/internal/browser"
)

// status is an answer of a server.
type status struct {
	code int
	wait time.Duration
}

func (s status) Error() string             { return fmt.Sprint(s.code, " ", http.StatusText(s.code)) }
func (s status) StatusCode() int           { return s.code }
func (s status) RetryAfter() time.Duration { return s.wait }

// outage records a minute of a service in a few seconds: first at rest, and then in an
// outage of what it calls. What it returns is still underway.
func outage(t *testing.T, recorder *retrydebug.Recorder) {
	recorder.Trace = func(context.Context) string { return "0af7651916cd43dd8448eb211c80319c" }
	budget := new(retry.EarnedBudget)
	recorder.ObserveBudget("dependency", budget)
	gateway := &limit.Limit{Max: 4}
	recorder.ObserveLimit("gateway", gateway)
	recorder.ObserveHedge("search", &hedge.Hedge{Delay: 80 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	policy := retry.Policy{MaxAttempts: 4, Budget: budget, Hooks: recorder.Hooks(), Backoff: retry.Exponential{Base: 50 * time.Millisecond}}
	begin := time.Now()
	const rest, whole = 5 * time.Second, 9 * time.Second
	load := func(p retry.Policy, every, takes time.Duration, failing float64, errs ...error) {
		running.Go(func() {
			for n := 0; time.Since(begin) < whole; n++ {
				time.Sleep(every)
				running.Go(func() {
					i := n
					_, _ = retry.Do(ctx, p, func(ctx context.Context) (struct{}, error) {
						time.Sleep(takes)
						i++
						if len(errs) > 0 && (i%50 == 0 || time.Since(begin) > rest && float64(i%10) < 10*failing) {
							return struct{}{}, errs[i%len(errs)]
						}
						return struct{}{}, nil
					})
				})
			}
		})
	}
	full, down := status{429, time.Second}, status{503, 0}
	broken := errors.New("read tcp 10.1.2.3:41532->10.1.2.9:8443: read: connection reset by peer")
	dead := errors.New("dial tcp 10.1.2.12:8443: connect: connection refused")
	limited := policy.Named("charge-card")
	limited.Guards = []retry.Guard{gateway}
	load(limited, 30*time.Millisecond, 90*time.Millisecond, 1, dead)
	load(policy.Named("get-user"), 25*time.Millisecond, 6*time.Millisecond, .9, full, down, broken)
	load(policy.Named("search"), 60*time.Millisecond, 35*time.Millisecond, .9, full, down)
	once := policy.Named("place-order")
	once.NonIdempotent = true
	load(once, 250*time.Millisecond, 19*time.Millisecond, .9, full, down)
	free := policy.Named("list-invoices")
	free.Budget = nil
	load(free, 100*time.Millisecond, 10*time.Millisecond, .2, broken, down)
	load(policy.Named("render-thumbnail"), 120*time.Millisecond, 65*time.Millisecond, 0)
	polls := retry.Policy{Name: "await-export", MaxAttempts: retry.Unlimited, Hooks: recorder.Hooks(), Backoff: retry.Constant(1300 * time.Millisecond)}
	running.Go(func() { _ = retry.Run(ctx, polls, func(context.Context) error { return retry.ErrRejected }) })
	running.Go(func() {
		_ = retry.Run(ctx, policy.Named("import-catalog"), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	})
	time.Sleep(time.Until(begin.Add(whole)))
}

// The page in an outage: it renews itself, and what the reader does stays.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	ctx := browser.Start(t, "", "net::ERR_CONNECTION_REFUSED", "favicon.ico")
	var recorder retrydebug.Recorder
	server := httptest.NewServer(&recorder)
	defer server.Close()
	browser.Do(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL))
	if got := browser.Ask[string](t, ctx, `document.querySelector(".headline").textContent`); !strings.HasPrefix(got, "Nothing is recorded yet") {
		t.Errorf("headline %q", got)
	}
	if got := browser.Ask[string](t, ctx, `getComputedStyle(document.querySelector(".headline")).fontWeight`); got != "700" {
		t.Errorf("the style is not applied: font-weight %s", got)
	}
	_ = retry.Run(t.Context(), retry.Policy{Name: "idle", Hooks: recorder.Hooks()}, func(context.Context) error { return retry.Stop(errors.New("404")) })
	outage(t, &recorder)
	browser.Eventually(t, ctx, `document.querySelector(".headline").textContent.includes("failed in the last")`)
	browser.Do(t, ctx, chromedp.Navigate(server.URL+"?window=10s"), chromedp.WaitReady("main"))
	browser.Picture(t, ctx, "debug", chromedp.EmulateViewport(1200, 1700))
	browser.Do(t, ctx, chromedp.Navigate(server.URL), chromedp.WaitReady("main"))
	browser.Picture(t, ctx, "wide", chromedp.EmulateViewport(1280, 1500))
	browser.Do(t, ctx, chromedp.EmulateViewport(375, 812))
	browser.Picture(t, ctx, "phone", chromedp.EmulateViewport(375, 812))

	// On a phone nothing but tables is wider than the screen, and of those the first columns
	// are seen.
	if got := browser.Ask[int](t, ctx, `document.documentElement.scrollWidth`); got > 375 {
		t.Errorf("the page is %d pixels wide on a screen of 375", got)
	}
	seen := browser.Ask[[]string](t, ctx, `[...document.querySelectorAll(".wide")].map(w => [...w.querySelectorAll("th")].filter(
		e => e.getBoundingClientRect().right <= 375).map(e => e.textContent).join(", "))`)
	for i := range seen {
		browser.Shaded(t, ctx, fmt.Sprintf("document.querySelectorAll(%q)[%d]", ".wide", i))
	}
	if len(seen) != 3 || !strings.HasPrefix(seen[0], "operation, runs lost") || !strings.HasPrefix(seen[1], "operation, failed, retried") || !strings.HasPrefix(seen[2], "age, operation, attempt") {
		t.Errorf("columns that are seen: %q", seen)
	}
	// The legend has the colors of the bars, and the scale of a chart is beside it.
	for _, class := range []string{"attempt", "pause", "guard"} {
		color := `getComputedStyle(document.querySelector("%s .` + class + `")).fill`
		legend, bars := browser.Ask[string](t, ctx, fmt.Sprintf(color, ".legend")), browser.Ask[string](t, ctx, fmt.Sprintf(color, ".bar"))
		if legend != bars {
			t.Errorf("%s is %s in the legend and %s in the bars", class, legend, bars)
		}
	}
	if !browser.Ask[bool](t, ctx, `[...document.querySelectorAll(".over")].every(e => {
		const scale = e.querySelector(".scale").getBoundingClientRect(), chart = e.querySelector(".chart").getBoundingClientRect();
		return scale.right <= chart.left && scale.top < chart.bottom && scale.bottom > chart.top;
	})`) {
		t.Error("a scale is not beside its chart")
	}
	browser.Do(t, ctx, chromedp.EmulateViewport(1280, 900))
	if got := browser.Ask[int](t, ctx, `document.documentElement.scrollWidth`); got > 1280 {
		t.Errorf("the page is %d pixels wide on a screen of 1280", got)
	}

	// Colors: text is readable on its ground, light and dark.
	for _, scheme := range []string{"light", "dark"} {
		browser.Do(t, ctx, browser.Look(scheme))
		for _, selector := range []string{"body", ".bad", ".muted", ".warn", "th", "h2"} {
			if ratio := browser.Contrast(t, ctx, selector); ratio < 4.5 {
				t.Errorf("%s, %s: a contrast of %.1f, want at least 4.5", scheme, selector, ratio)
			}
		}
	}

	// The ten seconds' window, in which a reader opens what is folded and scrolls.
	go func() { // or the page would take a longer window than the chosen one
		for t.Context().Err() == nil {
			_ = retry.Run(t.Context(), retry.Policy{Name: "heartbeat", Hooks: recorder.Hooks()}, func(context.Context) error { return nil })
			time.Sleep(time.Second)
		}
	}()
	browser.Do(t, ctx, chromedp.EmulateViewport(375, 812), chromedp.Click(`//a[text()="10s"]`))
	arrived := func(search string) { // an address is there before its page is
		t.Helper()
		browser.Eventually(t, ctx, `document.readyState === "complete" && location.search === "`+search+`"`)
	}
	arrived("?window=10s")
	browser.Eventually(t, ctx, `document.querySelector("details") !== null`)
	now := `document.querySelector("#when").textContent`
	before := browser.Ask[string](t, ctx, `document.querySelector("summary").focus(), document.querySelector("summary").click(), document.querySelector(".wide").scrollLeft = 50, `+now)
	browser.Eventually(t, ctx, now+` !== "`+before+`"`)
	if !browser.Ask[bool](t, ctx, `document.querySelector("details").open && document.querySelector(".wide").scrollLeft === 50 && document.activeElement.tagName === "SUMMARY"`) {
		t.Error("what was opened or scrolled to is gone")
	}

	// It stands still while something is selected, and goes on after that.
	before = browser.Ask[string](t, ctx, `getSelection().selectAllChildren(document.querySelector(".headline")), `+now)
	time.Sleep(5 * time.Second)
	if got := browser.Ask[string](t, ctx, now); got != before {
		t.Errorf("%s became %s while a text was selected", before, got)
	}
	browser.Eventually(t, ctx, `getSelection().removeAllRanges(), `+now+` !== "`+before+`"`)

	// Paused it stands still for good.
	browser.Do(t, ctx, chromedp.Click(`//a[text()="pause"]`))
	arrived("?window=10s&refresh=off")
	before = browser.Ask[string](t, ctx, now)
	time.Sleep(5 * time.Second)
	if got := browser.Ask[string](t, ctx, now); got != before {
		t.Errorf("%s became %s on a page that is paused", before, got)
	}
	browser.Do(t, ctx, chromedp.Click(`//a[text()="go on"]`))
	arrived("?window=10s")

	// A process that does not answer.
	if browser.Ask[bool](t, ctx, `document.querySelector("#stale").checkVisibility()`) {
		t.Error("a notice though the process answers")
	}
	server.CloseClientConnections()
	server.Close()
	browser.Eventually(t, ctx, `document.querySelector("#stale").checkVisibility() && document.querySelector("#stale").textContent.includes("does not answer")`)
	browser.Picture(t, ctx, "gone", chromedp.EmulateViewport(1280, 700))
}

// Names and texts stay texts, in a browser that would run what they are.
func TestHostileTexts(t *testing.T) {
	ctx := browser.Start(t, "", "favicon.ico")
	for _, text := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</bdi></td></table></main><h1>gone</h1>`, `'-alert(1)-'`, `<!--`, `{{.}}`,
		`</style></script><svg onload=alert(1)>`, "\u202egnp.exe", `javascript:alert(1)`,
	} {
		var recorder retrydebug.Recorder
		recorder.Trace = func(context.Context) string { return text }
		recorder.ObserveBudget(text, &budget.Token{})
		p := retry.Policy{Name: text, Hooks: recorder.Hooks(), MaxAttempts: 1}
		_ = retry.Run(t.Context(), p, func(context.Context) error { return errors.New(text) })
		server := httptest.NewServer(&recorder)
		browser.Do(t, ctx, chromedp.Navigate(server.URL), chromedp.WaitReady("main"))
		shown := strings.ReplaceAll(text, "\u202e", "\uFFFD")
		texts := browser.Ask[[]string](t, ctx, `[...document.querySelectorAll("bdi")].map(e => e.textContent)`)
		n := 0
		for _, got := range texts {
			if got == shown {
				n++
			}
		}
		if n != 11 { // in the headline twice, each table twice, the gauges, and four times in the run that failed
			t.Errorf("%q is shown %d times: %q", text, n, texts)
		}
		if browser.Ask[int](t, ctx, `document.querySelectorAll("h1, main, script, style, table").length`) != 6 || browser.Ask[int](t, ctx, `document.querySelectorAll("img, svg[onload]").length`) != 0 {
			t.Errorf("%q has changed the document", text)
		}
		server.Close()
	}
}

// Without JavaScript the page renews itself as well.
func TestWithoutScripts(t *testing.T) {
	ctx := browser.Start(t, "", "favicon.ico")
	var recorder retrydebug.Recorder
	requests := make(chan bool, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/" {
			requests <- true
		}
		recorder.ServeHTTP(w, req)
	}))
	defer server.Close()
	browser.Do(t, ctx, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(server.URL))
	for range 3 {
		select {
		case <-requests:
		case <-time.After(20 * time.Second):
			t.Fatal("the page does not renew itself")
		}
	}
}
