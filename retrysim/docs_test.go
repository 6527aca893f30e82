package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	storms      = "../docs/storms.md"
	overload    = "../docs/overload.md"
	experiments = "../bench/EXPERIMENTS.md" // not there where only the root module is
)

// readPage returns a page's text.
func readPage(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) && file == experiments {
		t.Skip("without the nested modules")
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// session is a command that a page names, and the lines of its output that the page shows.
type session struct {
	command string
	shown   []string
}

// sessions returns the commands of a page. Each is a line of indented code, and what it
// writes is below, also indented.
func sessions(text string) (all []session) {
	const command = "    go run ./retrysim "
	in := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		after, ok := strings.CutPrefix(line, command)
		switch {
		case ok:
			in = true
			after, _, _ = strings.Cut(after, " #")
			all = append(all, session{command: strings.TrimSpace(after)})
		case in && strings.HasPrefix(line, "    "):
			s := &all[len(all)-1]
			s.shown = append(s.shown, line[4:])
		default:
			in = in && line == ""
		}
	}
	return all
}

// The pages show lines of outputs that are whole in testdata.
func TestShownOutput(t *testing.T) {
	outputs := map[string]string{}
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		command, output := recorded(t, file)
		outputs[command] = output
	}
	shown := 0
	for _, s := range slices.Concat(sessions(readPage(t, storms)), sessions(readPage(t, overload)), sessions(readPage(t, experiments))) {
		if len(s.shown) == 0 || strings.HasPrefix(s.command, "live ") { // live is not repeatable
			continue
		}
		rest, ok := outputs[s.command]
		if !ok {
			t.Errorf("testdata has no output of retrysim %s", s.command)
			continue
		}
		shown++
		for _, line := range s.shown {
			if _, rest, ok = strings.Cut(rest, line+"\n"); !ok {
				t.Errorf("retrysim %s does not write %q, or not there", s.command, line)
				break
			}
		}
	}
	for _, m := range regexp.MustCompile("`(choose [^`]*)`").FindAllStringSubmatch(readPage(t, storms), -1) {
		if output := outputs["try -policy attempts=4"]; !strings.Contains(output, "\n"+m[1]) {
			t.Errorf("no output says %q", m[1])
		}
	}
	if shown != len(files) {
		t.Errorf("the pages show %d outputs, testdata has %d", shown, len(files))
	}
}

// recorded returns a command and its output, as they are checked in.
func recorded(t *testing.T, file string) (command, output string) {
	t.Helper()
	command, output, ok := strings.Cut(readPage(t, file), "\n\n")
	command, is := strings.CutPrefix(command, "$ retrysim ")
	if !ok || !is {
		t.Fatalf("%s does not begin with a command", file)
	}
	return command, output
}

// Each command that the guides name works. Here it runs once, if it is about chance.
func TestCommandsOfThePages(t *testing.T) {
	long(t)
	text := readPage(t, storms) + readPage(t, overload)
	var log strings.Builder
	for i := range 20 {
		fmt.Fprintf(&log, "{\"time\":\"2026-01-02T03:04:%02dZ\",\"duration\":0.1,\"status\":200}\n", i)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("access.log", []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	named := map[string]int{}
	for _, s := range sessions(text) {
		args := split(s.command)
		named[args[0]]++
		ctx := t.Context()
		switch args[0] {
		case "try":
			args = append(args, "-seeds", "1")
		case "find":
			args = append(args, "-seeds", "1", "-steps", "1", "-outages", "1")
		case "serve":
			interrupted, cancel := context.WithCancel(ctx)
			cancel()
			ctx, args = interrupted, append(args, "-listen", "127.0.0.1:0")
		}
		if out, errs, code := retrysim(ctx, args...); code != 0 || out == "" {
			t.Errorf("retrysim %s: exit code %d: %s", s.command, code, errs)
		}
	}
	if named["try"] < 2 || named["find"] < 1 || named["serve"] < 1 || named["fit"] < 1 {
		t.Errorf("the pages name %v", named)
	}
}

// With an EarnedBudget the server recovers from every outage that the search tries.
func TestLongestOutageOfThePage(t *testing.T) {
	notUnderRace(t)
	out := output(t, "find", "-policy", "attempts=4 budget=earned", "-seeds", "3", "-outages", "1", "-loads", ".5")
	if !strings.Contains(out, "the longest outage that it survives: 60 s\n") {
		t.Errorf("%s says 60 s; find says\n%s", storms, out)
	}
}

// The outputs and the pictures that are checked in are what the commands write. Their
// own last line is the command. The recorded picture of live is not repeated.
func TestCheckedInOutput(t *testing.T) {
	notUnderRace(t)
	long(t)
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) < 3 {
		t.Fatal(files)
	}
	for _, file := range files {
		command, _ := recorded(t, file)
		compare(t, file, "$ retrysim "+command+"\n\n"+output(t, split(command)...))
	}
	t.Run("budget.svg", func(t *testing.T) { compare(t, "../docs/budget.svg", twoPolicies(t)) })
	for _, file := range []string{"../docs/outage.svg", "../docs/survival.svg", "../bench/collapse.svg"} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if strings.Contains(file, "bench") {
				readPage(t, experiments) // else only the root module is there
			}
			args := split(strings.TrimPrefix(footer(t, file), "retrysim "))
			compare(t, file, output(t, append(args, "-format", "svg")...))
		})
	}
}

// twoPolicies draws the picture of the README: the outage of storms.md with four attempts,
// without a budget and with one.
func twoPolicies(t *testing.T) string {
	_, x, err := readLink("policy=attempts%3D4")
	if err != nil {
		t.Fatal(err)
	}
	rows := x.compare(t.Context(), x.variants()[1:3])
	if len(rows) != 2 || rows[1].Policy != "earned" {
		t.Fatalf("%d rows: want one without a budget, and one with an EarnedBudget", len(rows))
	}
	f := figure{
		title: "The server hangs for three seconds. Without a budget retries keep it down, with an EarnedBudget it recovers", width: 760, height: 136,
		legend: []series{{name: "requests to the server", color: 1}, {name: "calls that succeed", color: 2, style: "area"}},
	}
	for i, what := range []string{"Without a budget: ", "With an EarnedBudget: "} {
		r := rows[i].typical()
		p := x.panel("requests per second", x.limit(), "what the server can do")
		p.title, p.top, p.band = what+rows[i].Verdict, 5*x.Rate, "it hangs"
		p.lines = []series{{color: 2, style: "area", points: perSecond(r, successes)}, {color: 1, points: perSecond(r, attempts)}}
		f.panels = append(f.panels, p)
	}
	var b strings.Builder
	f.svg(&b)
	return b.String()
}

// compare reports what is not checked in as it should be, or writes it.
func compare(t *testing.T, file, want string) {
	t.Helper()
	if readPage(t, file) == want {
		return
	}
	if !*update {
		t.Errorf("%s is not what the command writes: run go test ./retrysim -update, and correct the page", file)
	} else if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// footer returns the command below a picture.
func footer(t *testing.T, file string) string {
	t.Helper()
	var picture struct {
		Texts []struct {
			Class string `xml:"class,attr"`
			Text  string `xml:",chardata"`
		} `xml:"text"`
	}
	if err := xml.Unmarshal([]byte(readPage(t, file)), &picture); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, text := range picture.Texts {
		if text.Class == "mono" {
			lines = append(lines, text.Text)
		}
	}
	first := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "retrysim ") })
	if first < 0 {
		t.Fatalf("%s does not name its command", file)
	}
	return strings.Join(lines[first:], " ")
}

// The page's table of servers: when they are back after the outage.
func TestServersOfThePage(t *testing.T) {
	long(t)
	rows := regexp.MustCompile("(?m)^\\| [^|]* \\| `(-[^`]*)` \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\|$").FindAllStringSubmatch(readPage(t, storms), -1)
	if len(rows) < 5 {
		t.Fatalf("the page has %d servers, want 5", len(rows))
	}
	for _, row := range rows {
		doc := decode[tried](t, append([]string{"try", "-policy", "attempts=4"}, strings.Fields(row[1])...)...)
		for i, policy := range []string{"no retries", "attempts=4", "earned"} {
			got := strings.TrimPrefix(doc.row(policy).Verdict, "recovers in ")
			if got == "is back as soon as it is over" {
				got = "at once"
			}
			if want := row[2+i]; got != want {
				t.Errorf("%s, %s: %s, the page says %s", row[1], policy, got, want)
			}
		}
	}
}
