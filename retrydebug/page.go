package retrydebug

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/tokens"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// page is parsed when it is first served: programs that import the package pay
// nothing at their start.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Parse(pageHTML))
})

// contentSecurityPolicy allows the page its one style, its one script and requests
// to itself.
var contentSecurityPolicy = sync.OnceValue(func() string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + hash(pageCSS) + "; script-src " + hash(pageJS) +
		"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
})

// view is what the query of a request has chosen.
type view struct {
	span   int // in spans
	paused bool
}

// viewOf returns the view that q asks for, and whether there is one.
func viewOf(q url.Values) (view, bool) {
	v := view{span: 1}
	if name := q.Get("window"); name != "" {
		v.span = -1
		for i, s := range spans {
			if s.name == name {
				v.span = i
			}
		}
	}
	refresh := q.Get("refresh")
	v.paused = refresh == "off"
	return v, v.span >= 0 && (v.paused || refresh == "")
}

// link is one of the page to itself.
type link struct {
	Text, Href string
	Current    bool
}

func (v view) href() string {
	href := "?window=" + spans[v.span].name
	if v.paused {
		href += "&refresh=off"
	}
	return href
}

func (v view) links() (links []link) {
	for i, s := range spans {
		links = append(links, link{s.name, view{i, v.paused}.href(), i == v.span})
	}
	text := "pause"
	if v.paused {
		text = "go on"
	}
	return append(links, link{text, view{v.span, !v.paused}.href(), false}, link{"JSON", "?format=json", false})
}

// pageData is what page.html shows.
type pageData struct {
	Style       template.CSS
	Script      template.JS
	Refresh     bool
	Program     string
	Host        string
	PID         int
	Now, Age    string
	Links       []link
	Headline    sentence
	Said        []sentence
	Window      string
	Causes      []causeRow
	MoreCauses  string
	Operations  []operationRow
	BarTime     string // of a chart's bar
	Idle        []operationRow
	IdleSummary string
	Gauges      []gaugeItem
	Underway    string
	Live        []runRow
	Failed      []failedItem
	Longest     string // of the failed runs, the width of their bars
}

// sentence is the headline, or a line below it.
type sentence struct {
	Loud  string // see loudness
	Parts []part
	After string // which is not loud
	lost  uint64 // runs: lines are in the order of these
}

// part is a text of the page's, or a name or an error's text.
type part struct {
	Text  string
	Named bool
}

func (s *sentence) say(text string)   { s.Parts = append(s.Parts, part{Text: text}) }
func (s *sentence) name(name string)  { s.Parts = append(s.Parts, part{name, true}) }
func (s *sentence) of(operation name) { s.name(cmp.Or(operation.Name, "(no name)")) }

// about returns a loud sentence about what has a name.
func about(kind, name, text string) sentence {
	return sentence{Loud: "bad", Parts: []part{{Text: "The " + kind + " "}, {name, true}, {Text: text}}}
}

// loudness returns a class of the style: "bad" if so many of all are many, "some" if they are few, and
// "" if there are none. The bound is that of the alert RetryFailing.
func loudness(n, all uint64) string {
	switch {
	case n == 0:
		return ""
	case 20*n < all:
		return "some"
	}
	return "bad"
}

// name is an operation's.
type name struct {
	Name  string
	Other bool
}

type operationRow struct {
	name
	Failed, Retried, FirstTry string
	Loud                      string // of Failed
	Retrying                  bool
	Rate, Attempts, P50, P99  string
	Chart                     *chart
	Live                      int
	Waiting                   int
	Reasons                   string
	LastError                 *lastRow
}

// causeRow is what attempts of an operation fail with.
type causeRow struct {
	name
	Refused                        bool
	Spared                         bool // a guard has refused attempts, and no run has ended by that
	Runs, Attempts                 uint64
	Class, Guard, Code, Error, Ago string
}

type lastRow struct{ Ago, Error string }

func (l *lastRow) tell(operation string, told told) {
	if l != nil {
		l.Error = told.error(operation, l.Error)
	}
}

type gaugeItem struct{ Kind, Name, Bar, Text string }

type runRow struct {
	name
	Age, Attempt, State, Guard, Next, Hint, LastError string
}

type failedItem struct {
	name
	Time, Reason, Summary, Trace, Cause string
	Refusal                             string // what the budget has said
	Last, Count                         string // what the last step failed with, and how many runs did
	Bars                                []bar
	Steps                               []stepText
}

// bar is a part of a run's time, in thousandths of the longest run shown.
type bar struct {
	Class       string
	From, Width int
}

// stepText is a step in words, with what stands before and after its guard and its error.
type stepText struct{ Before, Guard, Said, Error, After string }

// widened returns v, or if no run ended in its window the shortest longer one in which one
// did: the page does not say that all is quiet while its last runs have failed.
func (v view) widened(rep *report) view {
	for w := v; w.span < len(spans); w.span++ {
		if slices.ContainsFunc(rep.Operations, func(o operationReport) bool { return w.window(&o).Runs > 0 }) {
			return w
		}
	}
	return v
}

// render writes the page.
func (v view) render(b *bytes.Buffer, rep *report) error {
	chosen, told := v, told{}
	v = v.widened(rep)
	d := pageData{
		Style: template.CSS(pageCSS), Script: template.JS(pageJS), Refresh: !v.paused,
		Program: rep.Program, Host: rep.Host, PID: rep.PID,
		Now: rep.Now.Format("15:04:05 MST"), Age: brief(rep.Now.Sub(rep.Since)),
		Links: chosen.links(), Window: "last " + spans[v.span].name, BarTime: spans[v.span].bar,
		Gauges: gaugeItems(rep),
	}
	v.sort(rep)
	v.say(&d, rep, chosen, told) // in the order of the page, for told
	v.causes(&d, rep, told)
	v.operations(&d, rep, told)
	d.Underway = "Nothing underway"
	if n := rep.Live.Total; n > 0 {
		d.Underway = fmt.Sprintf("Underway: %d, %d of them waiting", n, rep.Live.Waiting)
		if guarded := rep.Live.Guarded; guarded > 0 {
			d.Underway += fmt.Sprintf(", %d for a guard", guarded)
		}
		if shown := len(rep.Live.Oldest); shown < n {
			d.Underway += fmt.Sprintf("; the %d oldest", shown)
		}
	}
	for _, n := range rep.Live.Oldest {
		row := runRowOf(n)
		row.LastError = told.error(n.Name, n.LastError)
		d.Live = append(d.Live, row)
	}
	d.Failed, d.Longest = failedItems(rep, told)
	for _, row := range d.Idle {
		row.LastError.tell(row.Name, told)
	}
	return page().Execute(b, &d)
}

func (v view) window(o *operationReport) windowReport { return o.Windows[spans[v.span].name] }

// told has the URLs that the page has shown, by operation.
type told map[[2]string]bool

var requestLine = regexp.MustCompile(`[A-Z][A-Za-z]* "?[a-z][a-z0-9+.-]*://[^\s"]+"?: `)

// error returns an error's text without the request that stands above already: a URL is long,
// and what went wrong is behind it.
func (t told) error(operation, text string) string {
	return requestLine.ReplaceAllStringFunc(text, func(request string) string {
		key := [2]string{operation, request}
		if t[key] {
			return ""
		}
		t[key] = true
		return request
	})
}

// sort puts operations with most failures first.
func (v view) sort(rep *report) {
	slices.SortStableFunc(rep.Operations, func(a, b operationReport) int {
		x, y := v.window(&a), v.window(&b)
		return cmp.Or(cmp.Compare(y.failing(), x.failing()), cmp.Compare(y.AfterRetry, x.AfterRetry), cmp.Compare(y.Runs, x.Runs))
	})
}

// operations fills the tables of operations.
func (v view) operations(d *pageData, rep *report, told told) {
	for i := range rep.Operations {
		o := &rep.Operations[i]
		w := v.window(o)
		row := operationRow{
			name: name{o.Name, o.Other}, Failed: share(w.failing(), w.Runs), Retried: share(w.AfterRetry, w.Runs), FirstTry: share(w.FirstTry, w.Runs),
			Loud: loudness(w.failing(), w.Runs), Retrying: w.AfterRetry > 0, Live: o.Live, Waiting: o.Waiting,
			Rate: "0", Attempts: "–", P50: "–", P99: "–", Reasons: reasonsOf(w, true),
		}
		if w.Runs > 0 {
			row.Rate, row.Attempts = rate(float64(w.Runs)/max(w.Seconds, 1e-3)), fmt.Sprintf("%.2f", float64(w.Attempts)/float64(w.Runs))
			row.P50, row.P99 = seconds(w.P50), seconds(w.P99)
			row.Chart = chartOf(w.History)
		}
		if e := o.LastError; e != nil {
			row.LastError = &lastRow{brief(rep.Now.Sub(e.Time)), e.Error}
		}
		if w.Runs > 0 || o.Live > 0 {
			row.LastError.tell(o.Name, told)
			d.Operations = append(d.Operations, row)
		} else {
			d.Idle = append(d.Idle, row)
		}
	}
	d.IdleSummary = fmt.Sprintf("%s without a run in the last %s", count(len(d.Idle), "operation"), spans[v.span].long)
}

// mostCauseRows is how many causes the page shows. The JSON has all.
const mostCauseRows = 20

// attempts returns how many attempts a cause has made fail in the window.
func (v view) attempts(c *causeReport) uint64 { return c.Attempts[spans[v.span].name] }

// lost returns how many runs a cause has ended in the window.
func (v view) lost(c *causeReport) uint64 { return c.Runs[spans[v.span].name] }

// compareCauses puts what failed before what was refused in consequence, and then the
// more frequent first.
func (v view) compareCauses(a, b *causeReport) int {
	return cmp.Or(refusedLast(a, b), cmp.Compare(v.attempts(b), v.attempts(a)))
}

// causes fills the table of what attempts fail with.
func (v view) causes(d *pageData, rep *report, told told) {
	type found struct {
		of *operationReport
		*causeReport
	}
	var all []found
	for i := range rep.Operations {
		o := &rep.Operations[i]
		for j := range o.Causes {
			if c := &o.Causes[j]; v.attempts(c) > 0 {
				all = append(all, found{o, c})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(v.lost(b.causeReport), v.lost(a.causeReport)), v.compareCauses(a.causeReport, b.causeReport))
	})
	if more := len(all) - mostCauseRows; more > 0 {
		d.MoreCauses = count(more, "further error") + " in the JSON."
		all = all[:mostCauseRows]
	}
	for _, c := range all {
		d.Causes = append(d.Causes, causeRow{name{c.of.Name, c.of.Other}, c.Refused, c.Refused && v.lost(c.causeReport) == 0, v.lost(c.causeReport), v.attempts(c.causeReport), c.Class, c.Guard, c.Code, told.error(c.of.Name, c.Error), brief(rep.Now.Sub(c.Time))})
	}
}

// cause returns what attempts of o mostly fail with in the window, or nil.
func (v view) cause(o *operationReport) (most *causeReport) {
	for i := range o.Causes {
		if c := &o.Causes[i]; v.attempts(c) > 0 && (most == nil || v.compareCauses(c, most) < 0) {
			most = c
		}
	}
	return most
}

// refusals is how many attempts of an operation a guard has refused, and how many runs it has ended by that.
type refusals struct {
	guard          string
	of             *operationReport
	attempts, runs uint64
}

// compare puts those first that have ended more runs.
func (r refusals) compare(o refusals) int {
	return cmp.Or(cmp.Compare(o.runs, r.runs), cmp.Compare(o.attempts, r.attempts))
}

// refusals returns those of the window, the most first.
func (v view) refusals(rep *report) (all []refusals) {
	for i := range rep.Operations {
		all = append(all, v.refusalsOf(&rep.Operations[i])...)
	}
	slices.SortStableFunc(all, refusals.compare)
	return all
}

// refusalsOf returns those of an operation.
func (v view) refusalsOf(o *operationReport) (all []refusals) {
	for j := range o.Causes {
		c := &o.Causes[j]
		if c.Guard == "" || v.attempts(c) == 0 && v.lost(c) == 0 {
			continue
		}
		k := slices.IndexFunc(all, func(g refusals) bool { return g.guard == c.Guard })
		if k < 0 {
			k = len(all)
			all = append(all, refusals{guard: c.Guard, of: o})
		}
		all[k].attempts += v.attempts(c)
		all[k].runs += v.lost(c)
	}
	slices.SortStableFunc(all, refusals.compare)
	return all
}

// guarded returns how many runs of o guards have ended.
func (v view) guarded(o *operationReport) uint64 {
	return v.window(o).Reasons[retry.ReasonGuard.String()]
}

// blame says what part of the runs of o the server fails, and each guard refuses, the most first. of stands
// behind the first.
func (v view) blame(said *sentence, o *operationReport, of string) {
	type culprit struct {
		part
		verb string
		runs uint64
	}
	w := v.window(o)
	guarded := v.guarded(o)
	left := guarded
	var all []culprit
	for _, r := range v.refusalsOf(o) {
		n := min(r.runs, left)
		left -= n
		all = append(all, culprit{part{r.guard, true}, " refuses ", n})
	}
	all = append(all, culprit{part{"guards", false}, " refuse ", left}, culprit{part{"the server", false}, " fails ", w.failing() - guarded})
	all = slices.DeleteFunc(all, func(c culprit) bool { return c.runs == 0 })
	slices.SortStableFunc(all, func(a, b culprit) int { return cmp.Compare(b.runs, a.runs) })
	for i, c := range all {
		if i > 0 {
			said.say(", ")
			of = ""
		}
		said.Parts = append(said.Parts, c.part)
		said.say(c.verb + share(c.runs, w.Runs) + of)
	}
}

// worst is how many operations, guards, budgets and limits are named below the headline.
const worst = 5

// say fills the headline and what stands below it. chosen is what the reader has asked for.
func (v view) say(d *pageData, rep *report, chosen view, told told) {
	var runs, failed, guarded, retried, attempts uint64
	for i := range rep.Operations {
		o := &rep.Operations[i]
		w := v.window(o)
		runs, failed, retried, attempts = runs+w.Runs, failed+w.failing(), retried+w.AfterRetry, attempts+w.Attempts
		guarded += v.guarded(o)
	}
	in := "in the last " + spans[v.span].long
	if age := rep.Now.Sub(rep.Since); age < time.Duration(spans[v.span].cells)*spans[v.span].second*time.Second {
		in = "in the last " + brief(age)
	}
	refusals := v.refusals(rep)
	d.Headline.Loud = loudness(failed, runs)
	ofAll := ""
	switch {
	case len(rep.Operations) == 0:
		d.Headline.say("Nothing is recorded yet: no policy with these hooks has been used.")
	case runs == 0:
		d.Headline.say("No run ended " + in + ".")
	case failed == 0:
		d.Headline.say("No run failed " + in + ".")
	case 2*guarded >= failed && len(refusals) > 0:
		o := refusals[0].of
		w := v.window(o)
		d.Headline.Loud = loudness(w.failing(), w.Runs)
		d.Headline.of(name{o.Name, o.Other})
		d.Headline.say(": ")
		v.blame(&d.Headline, o, " of "+count(int(w.Runs), "run")+" "+in)
		d.Headline.say(".")
		if len(rep.Operations) > 1 {
			ofAll = share(failed, runs) + " of all " + count(int(runs), "run") + " failed. "
		}
	default:
		d.Headline.say(share(failed, runs) + " of " + count(int(runs), "run") + " failed " + in + ".")
	}
	add := func(s sentence) { d.Said = append(d.Said, s) }
	if v != chosen {
		add(sentence{After: "No run ended in the last " + spans[chosen.span].long + "."})
	}
	if runs > 0 {
		text := fmt.Sprintf("%.2f attempts per run.", float64(attempts)/float64(runs))
		if retried > 0 {
			text = fmt.Sprintf("%s needed retries. %s", share(retried, runs), text)
		}
		add(sentence{After: ofAll + text})
	}
	var lines []sentence
	for i := range rep.Operations[:min(len(rep.Operations), worst)] {
		if o := &rep.Operations[i]; v.window(o).failing() > 0 {
			lines = append(lines, v.failing(o, told))
		}
	}
	for _, r := range refusals[:min(len(refusals), worst)] {
		if r.attempts > 0 {
			said := sentence{Loud: cmp.Or(loudness(r.runs, v.window(r.of).Runs), "some"), lost: r.runs, After: " " + in + "."}
			said.name(r.guard)
			said.say(" refused " + count(int(r.attempts), "attempt") + " of ")
			said.of(name{r.of.Name, r.of.Other})
			lines = append(lines, said)
		}
	}
	slices.SortStableFunc(lines, func(a, b sentence) int { return cmp.Compare(b.lost, a.lost) })
	d.Said = append(d.Said, lines...)
	empty := 0
	for _, b := range byPart(rep.Budgets) {
		if b.Balance == nil || *b.Balance >= .1 && !b.short() || empty == worst {
			continue
		}
		empty++
		text := " is almost used up."
		if b.short() {
			text = " has too little left for a retry."
		}
		add(about("budget", b.Name, text))
	}
	full := 0
	for _, l := range byPart(rep.Limits) {
		if l.InFlight == nil || l.Places == nil || *l.InFlight < *l.Places || full == worst {
			continue
		}
		full++
		add(about("limit", l.Name, fmt.Sprintf(" is full: %d of %d places are taken.", *l.InFlight, *l.Places)))
	}
	open := 0
	for _, b := range byPart(rep.Breakers) {
		if b.Open == nil || *b.Open == 0 || open == worst {
			continue
		}
		open++
		add(about("breaker", b.Name, " is open: the next attempt may start in "+seconds(*b.Open)+"."))
	}
	resting := 0
	for _, t := range byPart(rep.Targets) {
		if t.Resting == nil || *t.Resting == 0 || resting == worst {
			continue
		}
		resting++
		add(about("target", t.Name, " rests for "+seconds(*t.Resting)+": its calls are made elsewhere."))
	}
	closed := 0
	for _, g := range byPart(rep.Gates) {
		if g.Closed == nil || *g.Closed == 0 || closed == worst {
			continue
		}
		closed++
		add(about("gate", g.Name, " keeps messages in their queue: "+g.text()+"."))
	}
	wrong := 0
	for _, p := range byPart(rep.Paces) {
		if text := p.wrong(); text != "" && wrong < worst {
			wrong++
			add(about("pace", p.Name, " "+text))
		}
	}
	if len(rep.Live.Oldest) > 0 {
		n := rep.Live.Oldest[0]
		var said sentence
		said.of(name{Name: n.Name})
		said.After = " has the oldest run underway: " + seconds(n.Age) + "."
		add(said)
	}
}

// failing says how many runs of o fail, and why.
func (v view) failing(o *operationReport, told told) sentence {
	w := v.window(o)
	said := sentence{Loud: loudness(w.failing(), w.Runs), lost: w.failing(), After: ". They end with: " + reasonsOf(w, w.failing() > w.Failed) + "."}
	said.of(name{o.Name, o.Other})
	said.say(" fails in " + share(w.failing(), w.Runs) + " of its runs")
	cause := v.cause(o)
	if v.guarded(o) > 0 {
		said.say(": ")
		v.blame(&said, o, "")
		if cause == nil || cause.Refused {
			return said
		}
		said.say("; attempts fail with")
	}
	if cause != nil {
		said.say(": ")
		said.name(told.error(o.Name, cause.Error))
	}
	return said
}

// reasonsOf returns why runs ended, as shares of all, the most frequent first: those
// that failed, and after them, if all is set, permanent errors and cancels.
func reasonsOf(w windowReport, all bool) string {
	type why struct {
		reason string
		runs   uint64
		minor  int
	}
	var whys []why
	for reason, runs := range w.Reasons {
		minor := 0
		if reason == retry.ReasonPermanent.String() || reason == retry.ReasonCanceled.String() {
			minor = 1
		}
		if all || minor == 0 {
			whys = append(whys, why{reason, runs, minor})
		}
	}
	slices.SortFunc(whys, func(a, b why) int {
		return cmp.Or(cmp.Compare(a.minor, b.minor), cmp.Compare(b.runs, a.runs), cmp.Compare(a.reason, b.reason))
	})
	var texts []string
	for _, y := range whys {
		texts = append(texts, y.reason+" "+share(y.runs, w.Runs))
	}
	return strings.Join(texts, ", ")
}

// chart is the history of an operation: three paths of bars that stand on each
// other.
type chart struct {
	Bar                    int    // its width
	Most                   uint64 // runs, of the highest bar
	First, Retried, Failed string
}

// chartOf returns nil if nothing ended.
func chartOf(history [][3]uint64) *chart {
	const width, height = 120, 20
	var most uint64
	for _, h := range history {
		most = max(most, h[0]+h[1]+h[2])
	}
	if most == 0 {
		return nil
	}
	step := width / len(history)
	c := &chart{Bar: max(step-2, 1), Most: most}
	var paths [3][]byte
	for i, h := range history {
		x, y := i*step+step/2, height+2
		for j, n := range h {
			if n == 0 {
				continue
			}
			bar := max(int(math.Round(float64(n)/float64(most)*height)), 1)
			paths[j] = fmt.Appendf(paths[j], "M%d %dv-%d", x, y, bar)
			y -= bar
		}
	}
	c.First, c.Retried, c.Failed = string(paths[0]), string(paths[1]), string(paths[2])
	return c
}

// byPart replaces a gauge that has parts by the worst of these. The first one keeps the
// number of all.
func byPart[R any, P gaugeReport[R]](gauges []R) (all []R) {
	for i := range gauges {
		whole := P(&gauges[i]).head()
		if len(whole.Worst) == 0 {
			all = append(all, gauges[i])
		}
		for j, part := range whole.Worst {
			h := P(&part).head()
			h.Name = whole.Name + ": " + h.Name
			if j == 0 {
				h.Parts = whole.Parts
			}
			all = append(all, part)
		}
	}
	return all
}

func gaugeItems(rep *report) (items []gaugeItem) {
	add := func(item gaugeItem, parts int, superlative string) {
		if parts > 0 {
			item.Text += fmt.Sprintf(", the %s of %d", superlative, parts)
		}
		items = append(items, item)
	}
	for _, b := range byPart(rep.Budgets) {
		item := gaugeItem{Kind: "budget", Name: b.Name, Text: "–"}
		if b.Balance != nil {
			left := min(max(*b.Balance, 0), 1)
			item.Bar, item.Text = strconv.Itoa(int(100*left)), percent(left)+" left"
		}
		add(item, b.Parts, "lowest")
		items[len(items)-1].Text += pricesText(&b)
	}
	for _, l := range byPart(rep.Limits) {
		item := gaugeItem{Kind: "limit", Name: l.Name, Text: "–"}
		switch {
		case l.InFlight == nil:
		case l.Places == nil:
			item.Text = fmt.Sprintf("%d in flight, no limit", *l.InFlight)
		default:
			item.Text = fmt.Sprintf("%d of %d in flight", *l.InFlight, *l.Places)
		}
		add(item, l.Parts, "fullest")
	}
	for _, b := range byPart(rep.Breakers) {
		item := gaugeItem{Kind: "breaker", Name: b.Name, Text: "–"}
		switch {
		case b.Open == nil:
		case *b.Open > 0:
			item.Text = "open, next attempt in " + seconds(*b.Open)
		default:
			item.Text = "admits attempts"
		}
		add(item, b.Parts, "longest open")
	}
	for _, g := range byPart(rep.Gates) {
		item := gaugeItem{Kind: "gate", Name: g.Name, Text: "–"}
		switch {
		case g.Closed == nil:
		case *g.Closed > 0:
			item.Text = g.text()
		default:
			item.Text = "open"
		}
		add(item, g.Parts, "longest closed")
	}
	for _, t := range byPart(rep.Targets) {
		item := gaugeItem{Kind: "target", Name: t.Name, Text: "–"}
		switch {
		case t.Resting == nil:
		case *t.Resting > 0:
			item.Text = "rests for " + seconds(*t.Resting)
		default:
			item.Text = "does not rest"
		}
		add(item, t.Parts, "longest resting")
	}
	for _, h := range byPart(rep.Hedges) {
		item := gaugeItem{Kind: "hedge", Name: h.Name, Text: "–"}
		if h.Delay != nil {
			item.Text = "after " + seconds(*h.Delay)
		}
		add(item, h.Parts, "latest")
	}
	for _, p := range byPart(rep.Paces) {
		item := gaugeItem{Kind: "pace", Name: p.Name, Text: "–"}
		switch {
		case p.Wait == nil:
		case p.Rate != nil && *p.Rate == 0:
			item.Text = "admits nothing"
		case p.Rate != nil:
			item.Text = fmt.Sprintf("%.2f attempts/s, one that comes now waits %s", *p.Rate, seconds(*p.Wait))
		case *p.Wait > 0:
			item.Text = "holds all attempts for " + seconds(*p.Wait)
		default:
			item.Text = "open"
		}
		if p.Shared {
			item.Text += ", shared"
		}
		add(item, p.Parts, "slowest")
	}
	return items
}

// wrong says what is wrong with the quota of a pace, if anything is.
func (r *paceReport) wrong() string {
	switch {
	case r.Seems != nil:
		return fmt.Sprintf("has %s of its attempts throttled: the quota seems to be %s a second, not %s.", percent(*r.Throttled), short(*r.Seems), short(*r.Quota))
	case r.Alone != "" && *r.Quota > 0:
		return "shares its quota with nobody: " + r.Alone
	case r.Alone != "":
		return "admits nothing: " + r.Alone
	}
	return ""
}

// short returns x with three digits.
func short(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// pricesText says what a retry costs beside what is left. A share of a budget tells nobody
// whether that is enough.
func pricesText(r *budgetReport) string {
	if r.Price == nil {
		return ""
	}
	left := tokens.Left(*r.Tokens)
	text := fmt.Sprintf(": %s %s; a retry costs %s", left, tokens.Unit(left), tokens.Price(r.Price.Transient))
	if p := r.Price.Throttled; p != r.Price.Transient {
		text += ", after a throttled error " + tokens.Price(p)
	}
	if p := r.Price.TimedOut; p != r.Price.Transient {
		text += ", after a timeout " + tokens.Price(p)
	}
	return text
}

func runRowOf(n runReport) runRow {
	row := runRow{name: name{Name: n.Name}, Age: seconds(n.Age), Attempt: strconv.Itoa(n.Attempt), State: "waiting", Guard: n.Guard, LastError: n.LastError}
	if n.Limit > 0 {
		row.Attempt += " of " + strconv.Itoa(n.Limit)
	}
	switch {
	case n.State != "waiting":
		row.State = "attempting for " + seconds(n.For)
	case n.NextIn > 0:
		row.Next = ", next try in " + seconds(n.NextIn)
	default:
		row.Next = ", next try is due"
	}
	if n.Hint > 0 {
		row.Hint = seconds(n.Hint)
	}
	return row
}

// failedItems are the runs that failed, those with retries first, drawn on one scale
// of time, whose end is width.
func failedItems(rep *report, told told) (items []failedItem, width string) {
	runs := slices.Clone(rep.Failed)
	slices.SortStableFunc(runs, func(a, b failedReport) int { return cmp.Compare(min(b.Attempts, 2), min(a.Attempts, 2)) })
	longest := math.SmallestNonzeroFloat64
	for _, f := range runs {
		longest = max(longest, f.Seconds)
	}
	for _, f := range runs {
		item := failedItem{name: name{Name: f.Name}, Time: f.Time.Format("15:04:05"), Reason: f.Reason, Trace: f.Trace,
			Summary: fmt.Sprintf("%s, %s", seconds(f.Seconds), count(f.Attempts, "attempt"))}
		if f.Waited > 0 {
			item.Summary += ", waited " + seconds(f.Waited)
		}
		if len(f.Steps) > 0 {
			item.Last = told.error(f.Name, f.Steps[len(f.Steps)-1].Error)
		} else {
			item.Cause = told.error(f.Name, f.Cause)
		}
		if f.Attempts > 0 {
			item.Refusal = f.Cause
		}
		if f.Count > 1 {
			item.Count = fmt.Sprintf("the last of %d like it", f.Count)
		}
		scale := func(seconds float64) int { return int(min(max(seconds/longest, 0), 1) * 1000) }
		if len(f.Steps) > 0 {
			item.Bars = append(item.Bars, bar{"pause", 0, scale(f.Seconds)})
		}
		before := 0
		for i, s := range f.Steps {
			text := stepText{Before: seconds(s.Seconds) + " ", Error: told.error(f.Name, s.Error)}
			class, took, made := "attempt", s.Seconds, s.Attempt
			if s.Guard != "" {
				text = stepText{Guard: s.Guard, Error: text.Error}
				class, took, made = "guard", s.Wait, s.Attempt-1
			}
			item.Bars = append(item.Bars, bar{class, scale(s.Start), max(scale(s.Start+took)-scale(s.Start), 3)})
			if i > 0 && made > before+1 {
				text.Before = fmt.Sprintf("(%s not kept) · %s", count(made-before-1, "attempt"), text.Before)
			}
			if i > 0 {
				text.Before = " · " + text.Before
			}
			before = made
			switch {
			case s.Refused > 0:
				text.Said = fmt.Sprintf(" refused attempt %d: ", s.Attempt)
				if s.Refused > 1 {
					text.Said = fmt.Sprintf(" refused attempt %d %d times: ", s.Attempt, s.Refused)
				}
			case s.Guard != "":
				text.Said = fmt.Sprintf(" held attempt %d back", s.Attempt)
			}
			if s.Wait > 0 {
				text.After = " · wait " + seconds(s.Wait)
			}
			if s.Hint > 0 {
				text.After += " (the server asked for " + seconds(s.Hint) + ")"
			}
			item.Steps = append(item.Steps, text)
		}
		items = append(items, item)
	}
	return items, seconds(longest)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// share returns how many of all n are: no part looks like none, and not all like
// all.
func share(n, all uint64) string {
	if all == 0 {
		return "–"
	}
	return percent(float64(n) / float64(all))
}

func percent(x float64) string {
	switch {
	case x > 0 && x < .01:
		return "<1%"
	case x < 1 && x > .99:
		return ">99%"
	}
	return fmt.Sprintf("%.0f%%", 100*x)
}

func rate(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return fmt.Sprintf("%.0f", perSecond)
	case perSecond >= 1:
		return fmt.Sprintf("%.1f", perSecond)
	case perSecond >= .01:
		return fmt.Sprintf("%.2f", perSecond)
	}
	return "<0.01"
}

func seconds(s float64) string { return brief(time.Duration(s * float64(time.Second))) }

// brief returns d with two or three digits.
func brief(d time.Duration) string {
	s := d.Seconds()
	switch {
	case d < 100*time.Microsecond:
		return "<0.1ms"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", s*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0fms", s*1e3)
	case d < 10*time.Second:
		return fmt.Sprintf("%.2fs", s)
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", s)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(s)%60)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
