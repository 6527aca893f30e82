package simpage

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var pictures = flag.String("pictures", "", "a folder to put pictures of the page into")

// browser starts Chromium. What the page may not do is an error of the test: write to
// the console, throw an exception, open a dialog, make the browser complain, unless it
// is of what is allowed, or call another host than its own.
func browser(t *testing.T, host string, allowed ...string) context.Context {
	t.Helper()
	path := chromium(t)
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
	ctx, expire := context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(expire)
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			if !slices.ContainsFunc(allowed, func(part string) bool { return strings.Contains(e.Entry.Text, part) }) {
				t.Errorf("the browser: %s %s", e.Entry.Text, e.Entry.URL)
			}
		case *runtime.EventConsoleAPICalled:
			t.Errorf("the console: %s %s", e.Type, e.Args[0].Value)
		case *runtime.EventExceptionThrown:
			t.Errorf("an exception: %v", e.ExceptionDetails.Error())
		case *page.EventJavascriptDialogOpening:
			t.Errorf("a dialog: %s", e.Message)
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && u.Host != host {
				t.Errorf("a request to %s", e.Request.URL)
			}
		}
	})
	do(t, ctx, log.Enable(), page.Enable(), network.Enable(), runtime.Enable(), chromedp.EmulateViewport(1280, 900))
	return ctx
}

// chromium returns where Chromium is. Only CI must have it.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no Chromium on this machine")
	}
	t.Skip("there is no Chromium on this machine")
	return ""
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
	for range 300 {
		if ask[bool](t, ctx, expression) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("not within thirty seconds: %s\n%s", expression, ask[string](t, ctx, `document.body.innerText`))
}

// command builds retrysim, once for all tests.
var command = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "retrysim")
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, "retrysim")
	out, err := exec.Command("go", "build", "-o", program, "github.com/goretry/retry/cmd/retrysim").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if program, err := command(); err == nil {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// serve runs retrysim serve, and returns its address and host.
func serve(t *testing.T) (address, host string) {
	t.Helper()
	chromium(t)
	program, err := command()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "serve", "-listen", "127.0.0.1:0")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	address = strings.TrimSpace(line)
	return address, strings.Trim(strings.TrimPrefix(address, "http:"), "/")
}

const done = `results.ariaBusy === "false" && /^[0-9]+ runs?$/.test(document.querySelector("#runs").textContent)`

// settled waits until the page shows the last scene of its set-up.
func settled(t *testing.T, ctx context.Context) {
	t.Helper()
	time.Sleep(100 * time.Millisecond) // a change has begun by then
	eventually(t, ctx, done)
}

// try returns what the command says as JSON.
func try(t *testing.T, args ...string) map[string]any {
	t.Helper()
	program, err := command()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, append(append([]string{"try"}, args...), "-format", "json")...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// open goes to a page with this link.
func open(t *testing.T, ctx context.Context, address, link string) {
	t.Helper()
	do(t, ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(address+"#"+link), chromedp.WaitReady("#rows"))
}

func text(t *testing.T, ctx context.Context, id string) string {
	t.Helper()
	return ask[string](t, ctx, `document.getElementById("`+id+`").textContent`)
}

// small returns a picture in at most 128 colors: those that most pixels have, and of the
// others sixteen shades each of red, green and blue. That is enough for a page, in a
// part of the bytes.
func small(t *testing.T, shot []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	shade := func(c uint32) uint8 { return uint8((c>>8 + 8) / 17 * 17) }
	box := full.Bounds()
	exact, shades := make(map[color.Color]int), make(map[color.Color]int)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			r, g, b, _ := full.At(x, y).RGBA()
			exact[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}]++
			shades[color.RGBA{shade(r), shade(g), shade(b), 255}]++
		}
	}
	most := func(pixels map[color.Color]int, n int) []color.Color {
		all := slices.SortedFunc(maps.Keys(pixels), func(a, b color.Color) int { return cmp.Compare(pixels[b], pixels[a]) })
		return all[:min(len(all), n)]
	}
	paletted := image.NewPaletted(box, append(most(exact, 48), most(shades, 80)...))
	draw.Draw(paletted, box, full, box.Min, draw.Src)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, paletted); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// picture writes pictures of what is seen, light and dark, if they are wanted.
func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	for _, scheme := range []string{"dark", "light"} {
		var shot []byte
		do(t, ctx, look(scheme), chromedp.CaptureScreenshot(&shot))
		if err := os.WriteFile(filepath.Join(*pictures, name+"-"+scheme+".png"), small(t, shot), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func look(scheme string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
}

// At first sight all of the answer but the pictures is there, and it is what try says.
func TestFirstSight(t *testing.T) {
	address, host := serve(t)
	ctx := browser(t, host)
	do(t, ctx, chromedp.Navigate(address))
	settled(t, ctx)
	picture(t, ctx, "playground")
	checkAnswer(t, ctx)
	for _, id := range []string{"state", "why", "title", "table"} {
		if bottom := ask[float64](t, ctx, `document.getElementById("`+id+`").getBoundingClientRect().bottom`); bottom > 900 || bottom <= 0 {
			t.Errorf("#%s ends at %v, and 900 pixels are seen", id, bottom)
		}
	}
	if got := text(t, ctx, "state"); got != "✗ stays down" {
		t.Errorf("the verdict is %q", got)
	}
	if got := text(t, ctx, "why"); !strings.HasPrefix(got, "the server gets ") {
		t.Errorf("the reason is %q", got)
	}
	if got := ask[int](t, ctx, `document.documentElement.scrollWidth`); got > 1280 {
		t.Errorf("the page is %d pixels wide", got)
	}
}

// checkAnswer compares all that the page shows with what its command says.
func checkAnswer(t *testing.T, ctx context.Context) {
	t.Helper()
	words := split(text(t, ctx, "command"))
	if len(words) < 2 || words[0] != "retrysim" || words[1] != "try" {
		t.Fatalf("the command is %q", words)
	}
	doc := try(t, words[2:]...)
	var want [][]string
	for i, r := range doc["rows"].([]any) {
		row := r.(map[string]any)
		number := func(name string) float64 { return row[name].(float64) }
		name, mark, p99 := row["policy"].(string), "✗ ", fmt.Sprintf("%.0f ms", number("p99_ms"))
		if i == 1 {
			name += " (yours)"
		}
		if row["recovers"] == true {
			mark = "✓ "
		}
		if number("p99_ms") >= 1000 {
			p99 = fmt.Sprintf("%.1f s", number("p99_ms")/1000)
		}
		want = append(want, []string{name, mark + row["verdict"].(string), fmt.Sprintf("%.0f of %.0f", number("stays_down")*number("seeds"), number("seeds")),
			fmt.Sprintf("%.1f %%", 100*number("lost_share")), fmt.Sprintf("%.2f", number("load")), p99})
	}
	if got := ask[[][]string](t, ctx, `[...document.querySelectorAll("#rows tr")].map(row => [...row.cells].map(cell => cell.textContent))`); !reflect.DeepEqual(got, want) {
		t.Errorf("rows\n%q\nand the command has\n%q", got, want)
	}
	yours := doc["rows"].([]any)[1].(map[string]any)
	if got := text(t, ctx, "state"); got != want[1][1] {
		t.Errorf("the verdict is %q, want %q", got, want[1][1])
	}
	if got, want := text(t, ctx, "why"), yours["why"]; want != nil && got != want || want == nil && got != "" {
		t.Errorf("the reason is %q, want %v", got, want)
	}
	if got := text(t, ctx, "choose"); got != doc["choose"] {
		t.Errorf("the choice is %q, want %q", got, doc["choose"])
	}
	titles := ask[[]string](t, ctx, `[...document.querySelectorAll("#pictures svg > title")].map(title => title.textContent)`)
	if len(titles) != len(want) || titles[0] != want[0][0] || titles[1]+" (yours)" != want[1][0] {
		t.Errorf("pictures of %q", titles)
	}
	if got := text(t, ctx, "text"); got != yours["text"] {
		t.Errorf("the text is %q, want %q", got, yours["text"])
	}
}

// split splits a command line as a shell does.
func split(line string) (words []string) {
	word, quoted, any := "", false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			quoted, any = !quoted, true
		case c == '\\' && !quoted:
			i++
			word, any = word+line[i:i+1], true
		case c == ' ' && !quoted:
			if any {
				words = append(words, word)
			}
			word, any = "", false
		default:
			word, any = word+line[i:i+1], true
		}
	}
	if any {
		words = append(words, word)
	}
	return words
}
