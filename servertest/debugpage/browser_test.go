package debugpage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrydebug"
)

var pictures = flag.String("pictures", "", "a folder to put pictures of the page into")

// browser starts Chromium, and reports as errors of the test what the page does not
// get by with: exceptions, dialogs, and what the browser complains about, such as
// violations of the policy. Those with a part of allowed in them are none.
func browser(t *testing.T, allowed ...string) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium on this machine")
	}
	folder, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 50 { // its processes end after it, and write until then
			if os.RemoveAll(folder) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	ctx, stop := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(path), chromedp.UserDataDir(folder),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	t.Cleanup(stop)
	ctx, closed := chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); closed() })
	ctx, expire := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(expire)
	complain := func(what, text string) {
		for _, part := range allowed {
			if strings.Contains(text, part) {
				return
			}
		}
		t.Errorf("%s: %s", what, text)
	}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			complain("the browser", e.Entry.Text+" "+e.Entry.URL)
		case *runtime.EventExceptionThrown:
			complain("an exception", e.ExceptionDetails.Error())
		case *page.EventJavascriptDialogOpening:
			complain("a dialog", e.Message)
		}
	})
	do(t, ctx, log.Enable(), page.Enable())
	return ctx
}

func do(t *testing.T, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// ask returns what an expression is in the page.
func ask[T any](t *testing.T, ctx context.Context, expression string) (v T) {
	t.Helper()
	do(t, ctx, chromedp.Evaluate(expression, &v))
	return v
}

// eventually waits until the expression is true.
func eventually(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	for range 100 {
		if ask[bool](t, ctx, expression) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("not within ten seconds: %s", expression)
}

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
	budget := &retry.TokenBudget{Capacity: 60}
	recorder.ObserveBudget("dependency", budget)
	limited := &limit.Limit{}
	recorder.ObserveLimit("database", limited)
	for range 12 {
		limited.Acquire()
	}
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
					_ = retry.Run(ctx, p, func(ctx context.Context) error {
						time.Sleep(takes)
						i++
						if len(errs) > 0 && (i%50 == 0 || time.Since(begin) > rest && float64(i%10) < 10*failing) {
							return errs[i%len(errs)]
						}
						return nil
					})
				})
			}
		})
	}
	full, down := status{429, time.Second}, status{503, 0}
	broken := errors.New("read tcp 10.1.2.3:41532->10.1.2.9:8443: read: connection reset by peer")
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
	ctx := browser(t, "net::ERR_CONNECTION_REFUSED", "favicon.ico")
	var recorder retrydebug.Recorder
	server := httptest.NewServer(&recorder)
	defer server.Close()
	picture := func(name string, width, height int64) {
		t.Helper()
		if *pictures == "" {
			return
		}
		for _, scheme := range []string{"light", "dark"} {
			var shot []byte
			do(t, ctx, chromedp.EmulateViewport(width, height),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
				chromedp.CaptureScreenshot(&shot))
			if err := os.WriteFile(filepath.Join(*pictures, name+"-"+scheme+".png"), small(t, shot), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}

	do(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL))
	if got := ask[string](t, ctx, `document.querySelector(".headline").textContent`); !strings.HasPrefix(got, "Nothing is recorded yet") {
		t.Errorf("headline %q", got)
	}
	if got := ask[string](t, ctx, `getComputedStyle(document.querySelector(".headline")).fontWeight`); got != "700" {
		t.Errorf("the style is not applied: font-weight %s", got)
	}
	_ = retry.Run(t.Context(), retry.Policy{Name: "idle", Hooks: recorder.Hooks()}, func(context.Context) error { return retry.Stop(errors.New("404")) })
	outage(t, &recorder)
	eventually(t, ctx, `document.querySelector(".headline").textContent.includes("failed in the last")`)
	do(t, ctx, chromedp.Navigate(server.URL+"?window=10s"), chromedp.WaitReady("main"))
	picture("debug", 1200, 1330)
	do(t, ctx, chromedp.Navigate(server.URL), chromedp.WaitReady("main"))
	picture("wide", 1280, 1500)
	do(t, ctx, chromedp.EmulateViewport(390, 844))
	picture("phone", 390, 844)

	// On a phone nothing but tables is wider than the screen, and of those the first columns
	// are seen.
	if got := ask[int](t, ctx, `document.documentElement.scrollWidth`); got > 390 {
		t.Errorf("the page is %d pixels wide on a screen of 390", got)
	}
	seen := ask[[]string](t, ctx, `[...document.querySelectorAll(".wide")].map(w => [...w.querySelectorAll("th")].filter(
		e => e.getBoundingClientRect().right <= 390).map(e => e.textContent).join(", "))`)
	if len(seen) != 2 || !strings.HasPrefix(seen[0], "operation, failed, retried") || !strings.HasPrefix(seen[1], "age, operation, attempt") {
		t.Errorf("columns that are seen: %q", seen)
	}
	do(t, ctx, chromedp.EmulateViewport(1280, 900))
	if got := ask[int](t, ctx, `document.documentElement.scrollWidth`); got > 1280 {
		t.Errorf("the page is %d pixels wide on a screen of 1280", got)
	}

	// Colors: text is readable on its ground, light and dark.
	for _, scheme := range []string{"light", "dark"} {
		do(t, ctx, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
		for _, selector := range []string{"body", ".bad", ".muted", ".warn", "th", "h2"} {
			if ratio := ask[float64](t, ctx, fmt.Sprintf(contrast, selector)); ratio < 4.5 {
				t.Errorf("%s, %s: a contrast of %.1f, want at least 4.5", scheme, selector, ratio)
			}
		}
	}

	// The ten seconds' window, in which a reader opens what is folded and scrolls.
	do(t, ctx, chromedp.EmulateViewport(390, 844), chromedp.Click(`//a[text()="10s"]`))
	eventually(t, ctx, `location.search === "?window=10s" && document.querySelector("details") !== null`)
	now := `document.querySelector("#when").textContent`
	before := ask[string](t, ctx, `document.querySelector("summary").focus(), document.querySelector("summary").click(), document.querySelector(".wide").scrollLeft = 50, `+now)
	eventually(t, ctx, now+` !== "`+before+`"`)
	if !ask[bool](t, ctx, `document.querySelector("details").open && document.querySelector(".wide").scrollLeft === 50 && document.activeElement.tagName === "SUMMARY"`) {
		t.Error("what was opened or scrolled to is gone")
	}

	// It stands still while something is selected, and goes on after that.
	before = ask[string](t, ctx, `getSelection().selectAllChildren(document.querySelector(".headline")), `+now)
	time.Sleep(5 * time.Second)
	if got := ask[string](t, ctx, now); got != before {
		t.Errorf("%s became %s while a text was selected", before, got)
	}
	eventually(t, ctx, `getSelection().removeAllRanges(), `+now+` !== "`+before+`"`)

	// Paused it stands still for good.
	do(t, ctx, chromedp.Click(`//a[text()="pause"]`))
	eventually(t, ctx, `location.search === "?window=10s&refresh=off"`)
	before = ask[string](t, ctx, now)
	time.Sleep(5 * time.Second)
	if got := ask[string](t, ctx, now); got != before {
		t.Errorf("%s became %s on a page that is paused", before, got)
	}
	do(t, ctx, chromedp.Click(`//a[text()="go on"]`))
	eventually(t, ctx, `location.search === "?window=10s"`)

	// A process that does not answer.
	if ask[bool](t, ctx, `document.querySelector("#stale").checkVisibility()`) {
		t.Error("a notice though the process answers")
	}
	server.CloseClientConnections()
	server.Close()
	eventually(t, ctx, `document.querySelector("#stale").checkVisibility() && document.querySelector("#stale").textContent.includes("does not answer")`)
	picture("gone", 1280, 700)
}

// small returns a picture in at most 256 colors, of sixteen shades each of red, green
// and blue: enough for a page, in a third of the bytes.
func small(t *testing.T, shot []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	shade := func(c uint32) uint8 { return uint8((c>>8 + 8) / 17 * 17) }
	box := full.Bounds()
	pixels := make(map[color.Color]int)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			r, g, b, _ := full.At(x, y).RGBA()
			pixels[color.RGBA{shade(r), shade(g), shade(b), 255}]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(pixels), func(a, b color.Color) int { return cmp.Compare(pixels[b], pixels[a]) })
	paletted := image.NewPaletted(box, colors[:min(len(colors), 256)])
	draw.Draw(paletted, box, full, box.Min, draw.Src)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, paletted); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// contrast is the ratio of WCAG 2.2 between an element's text and the page's ground.
const contrast = `(() => {
	const light = color => { const [r, g, b] = color.match(/\d+/g).map(n => n / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b; };
	const [a, b] = [light(getComputedStyle(document.querySelector("%s")).color), light(getComputedStyle(document.body).backgroundColor)].sort((a, b) => b - a);
	return (a + .05) / (b + .05);
})()`

// Names and texts stay texts, in a browser that would run what they are.
func TestHostileTexts(t *testing.T) {
	ctx := browser(t, "favicon.ico")
	for _, text := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</bdi></td></table></main><h1>gone</h1>`, `'-alert(1)-'`, `<!--`, `{{.}}`,
		`</style></script><svg onload=alert(1)>`, "\u202egnp.exe", `javascript:alert(1)`,
	} {
		var recorder retrydebug.Recorder
		recorder.Trace = func(context.Context) string { return text }
		recorder.ObserveBudget(text, &retry.TokenBudget{})
		p := retry.Policy{Name: text, Hooks: recorder.Hooks(), MaxAttempts: 1}
		_ = retry.Run(t.Context(), p, func(context.Context) error { return errors.New(text) })
		server := httptest.NewServer(&recorder)
		do(t, ctx, chromedp.Navigate(server.URL), chromedp.WaitReady("main"))
		shown := strings.ReplaceAll(text, "\u202e", "\uFFFD")
		texts := ask[[]string](t, ctx, `[...document.querySelectorAll("bdi")].map(e => e.textContent)`)
		n := 0
		for _, got := range texts {
			if got == shown {
				n++
			}
		}
		if n != 7 { // in the headline, the table twice, the gauges, and thrice in the run that failed
			t.Errorf("%q is shown %d times: %q", text, n, texts)
		}
		if ask[int](t, ctx, `document.querySelectorAll("h1, main, script, style, table").length`) != 5 || ask[int](t, ctx, `document.querySelectorAll("img, svg[onload]").length`) != 0 {
			t.Errorf("%q has changed the document", text)
		}
		server.Close()
	}
}

// Without JavaScript the page renews itself as well.
func TestWithoutScripts(t *testing.T) {
	ctx := browser(t, "favicon.ico")
	var recorder retrydebug.Recorder
	requests := make(chan bool, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/" {
			requests <- true
		}
		recorder.ServeHTTP(w, req)
	}))
	defer server.Close()
	do(t, ctx, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(server.URL))
	for range 3 {
		select {
		case <-requests:
		case <-time.After(20 * time.Second):
			t.Fatal("the page does not renew itself")
		}
	}
}
