package simpage

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/goretry/retry/servertest/internal/browser"
)

// command builds retrysim, once for all tests.
var command = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "retrysim")
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, "retrysim")
	out, err := exec.Command("go", "build", "-o", program, "github.com/goretry/retry/retrysim").CombinedOutput()
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
	browser.Chromium(t)
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
	browser.Eventually(t, ctx, done)
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
	browser.Do(t, ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(address+"#"+link), chromedp.WaitReady("#rows"))
}

func text(t *testing.T, ctx context.Context, id string) string {
	t.Helper()
	return browser.Ask[string](t, ctx, `document.getElementById("`+id+`").textContent`)
}

// At first sight all of the answer but the pictures is there, and it is what try says.
func TestFirstSight(t *testing.T) {
	address, host := serve(t)
	ctx := browser.Start(t, host)
	browser.Do(t, ctx, chromedp.Navigate(address))
	settled(t, ctx)
	browser.Picture(t, ctx, "playground")
	checkAnswer(t, ctx)
	for _, id := range []string{"state", "why", "title", "table"} {
		if bottom := browser.Ask[float64](t, ctx, `document.getElementById("`+id+`").getBoundingClientRect().bottom`); bottom > 900 || bottom <= 0 {
			t.Errorf("#%s ends at %v, and 900 pixels are seen", id, bottom)
		}
	}
	if got := text(t, ctx, "state"); got != "✗ stays down" {
		t.Errorf("the verdict is %q", got)
	}
	if got := text(t, ctx, "why"); !strings.HasPrefix(got, "the server gets ") {
		t.Errorf("the reason is %q", got)
	}
	if got := browser.Ask[int](t, ctx, `document.documentElement.scrollWidth`); got > 1280 {
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
	if got := browser.Ask[[][]string](t, ctx, `[...document.querySelectorAll("#rows tr")].map(row => [...row.cells].map(cell => cell.textContent))`); !reflect.DeepEqual(got, want) {
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
	titles := browser.Ask[[]string](t, ctx, `[...document.querySelectorAll("#pictures svg > title")].map(title => title.textContent)`)
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
