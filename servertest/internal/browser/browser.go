// Package browser drives Chromium in the tests of the two pages of the library.
package browser

import (
	"bytes"
	"cmp"
	"context"
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
	"slices"
	"strings"
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

// Start starts Chromium. What a page may not do is an error of the test: write to the
// console, throw an exception, open a dialog, make the browser complain, unless that has a
// part of allowed in it, or call another host than its own. An empty host allows any.
func Start(t *testing.T, host string, allowed ...string) context.Context {
	t.Helper()
	path := Chromium(t)
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
			if u, err := url.Parse(e.Request.URL); err != nil || host != "" && u.Scheme != "data" && u.Host != host {
				t.Errorf("a request to %s", e.Request.URL)
			}
		}
	})
	Do(t, ctx, log.Enable(), page.Enable(), network.Enable(), runtime.Enable(), chromedp.EmulateViewport(1280, 900))
	return ctx
}

// Chromium returns where Chromium is. Only CI must have it.
func Chromium(t *testing.T) string {
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

// Do runs actions in the page.
func Do(t *testing.T, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// Ask returns what an expression is in the page.
func Ask[T any](t *testing.T, ctx context.Context, expression string) (v T) {
	t.Helper()
	Do(t, ctx, chromedp.Evaluate(expression, &v))
	return v
}

// Eventually waits until the expression is true. While another page comes it cannot be evaluated.
func Eventually(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	for range 300 {
		var ok bool
		if err := chromedp.Run(ctx, chromedp.Evaluate(expression, &ok)); err == nil && ok {
			return
		} else if ctx.Err() != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("not within thirty seconds: %s\n%s", expression, Ask[string](t, ctx, `document.body.innerText`))
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

// Picture writes pictures of what is seen after the actions, light and dark, if they are
// wanted. Then the page is as it was, in light.
func Picture(t *testing.T, ctx context.Context, name string, actions ...chromedp.Action) {
	t.Helper()
	if *pictures == "" {
		return
	}
	defer Do(t, ctx, Look("light"))
	for _, scheme := range []string{"light", "dark"} {
		var shot []byte
		Do(t, ctx, append(actions[:len(actions):len(actions)], Look(scheme), chromedp.CaptureScreenshot(&shot))...)
		if err := os.WriteFile(filepath.Join(*pictures, name+"-"+scheme+".png"), small(t, shot), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Look makes the browser prefer a color scheme, light or dark.
func Look(scheme string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
}

// Contrast returns the ratio of WCAG 2.2 between an element's text and its ground.
func Contrast(t *testing.T, ctx context.Context, selector string) float64 {
	t.Helper()
	return Ask[float64](t, ctx, fmt.Sprintf(contrast, selector))
}

const contrast = `(() => {
	const light = color => { const [r, g, b] = color.match(/[\d.]+/g).map(n => n / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b; };
	let e = document.querySelector("%s"), color = getComputedStyle(e).color;
	while (/, 0\)$|transparent/.test(getComputedStyle(e).backgroundColor)) e = e.parentElement;
	const [a, b] = [light(color), light(getComputedStyle(e).backgroundColor)].sort((a, b) => b - a);
	return (a + .05) / (b + .05);
})()`

// Shaded fails if nothing in the picture shows that an element, which is wider than its place, can
// be scrolled to the right, and to the left when it is: its edge is darker there. The element is an
// expression.
func Shaded(t *testing.T, ctx context.Context, element string) {
	t.Helper()
	Do(t, ctx, chromedp.Evaluate(element+`.scrollIntoView({block: "center"})`, nil))
	if most := Ask[int](t, ctx, element+".scrollWidth - "+element+".clientWidth"); most <= 0 {
		t.Errorf("%s is not wider than its place: this shows nothing", element)
		return
	}
	edges := func(left string) (atLeft, atRight int) {
		var shot []byte
		Do(t, ctx, chromedp.Evaluate(element+".scrollLeft = "+left, nil), chromedp.CaptureScreenshot(&shot))
		picture, err := png.Decode(bytes.NewReader(shot))
		if err != nil {
			t.Fatal(err)
		}
		box := Ask[map[string]float64](t, ctx, "(({left, right, top, bottom}) => ({left, right, top, bottom}))("+element+".getBoundingClientRect())")
		bright := func(x float64) int { // of most rows: some have a letter there
			var all []uint8
			for y := int(box["top"]) + 1; y < int(box["bottom"])-1 && y < picture.Bounds().Max.Y; y++ {
				all = append(all, color.GrayModel.Convert(picture.At(int(x), y)).(color.Gray).Y)
			}
			slices.Sort(all)
			return int(all[len(all)/2])
		}
		return bright(box["left"] + 1), bright(box["right"] - 2)
	}
	lightLeft, darkRight := edges("0")
	darkLeft, lightRight := edges("1e6")
	if darkRight > lightRight-10 || darkLeft > lightLeft-10 {
		t.Errorf("%s: its right edge has a brightness of %d where it goes on, and %d at its end; its left edge %d and %d", element, darkRight, lightRight, darkLeft, lightLeft)
	}
	Do(t, ctx, chromedp.Evaluate(element+".scrollLeft = 0", nil))
}
