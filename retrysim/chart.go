package main

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goretry/retry/retrysim/internal/storm"
)

// figure is panels above each other.
type figure struct {
	title  string
	footer string  // small print
	width  float64 // 0: that of a page
	height float64 // of each panel
	legend []series
	panels []panel
}

// panel is lines over the same axes, or a map.
type panel struct {
	title, x, y string
	lines       []series
	top         float64 // of the y axis; 0: as high as the highest line
	rule        float64 // a dashed line across; 0: none
	ruleName    string
	from, to    float64   // of a band with a name
	band        string    // "": none
	names       bool      // beside the ends of the lines
	cells       []float64 // of a map, in percent: the first column from below, then the next
	columns     []string
	rows        []string
}

// series is a line, or an area.
type series struct {
	name   string
	color  int
	style  string // "": a line; area; wide: a line that shows behind another; dash
	points []point
}

type point struct{ x, y, base float64 }

// extent returns the greatest coordinates of a panel.
func (p panel) extent() (x, y float64) {
	y = p.rule
	for _, line := range p.lines {
		for _, q := range line.points {
			x, y = max(x, q.x), max(y, q.y)
		}
	}
	return max(x, 1e-9), cmp.Or(p.top, max(y, 1e-9))
}

// perSecond returns a number for each second of a mean run, at its middle.
func perSecond(r *storm.Result, number func(storm.Bucket) int) (points []point) {
	for at := time.Second; int(at/r.Bucket) <= len(r.Buckets); at += time.Second {
		n := number(r.Sum(at-time.Second, at))
		points = append(points, point{x: at.Seconds() - .5, y: float64(n) / float64(r.Runs)})
	}
	return points
}

func attempts(b storm.Bucket) int  { return b.Sent }
func successes(b storm.Bucket) int { return b.Good }

// backlog returns how many seconds of work a server that does so much per second
// holds, at the end of each second.
func backlog(r *storm.Result, capacity float64) (points []point) {
	for at := time.Second; int(at/r.Bucket) <= len(r.Buckets); at += time.Second {
		points = append(points, point{x: at.Seconds(), y: r.Held(at) / capacity})
	}
	return points
}

const (
	across  = 860.0 // a page
	left    = 52.0
	right   = 20.0
	names   = 130.0 // beside lines
	above   = 34.0
	below   = 40.0
	between = 16.0 // lines of a heading
	legend  = 26.0
)

const style = `<style>
.storm { --paper: #ffffff; --ink: #1f2328; --faint: #d0d7de; --band: #fff1c2; font: 13px system-ui, sans-serif; fill: var(--ink) }
.storm polyline { fill: none; stroke-width: 2; stroke-linejoin: round; stroke: var(--c) }
.storm .wide { stroke-width: 7; opacity: .45 } .storm .dash, .storm .rule { stroke-dasharray: 6 4; stroke: var(--ink); fill: none }
.storm .area { fill: var(--c); opacity: .75 } .storm .axis { stroke: var(--faint) } .storm .paper { fill: var(--paper) } .storm .band { fill: var(--band) }
.storm .small { font-size: 11px } .storm .middle { text-anchor: middle } .storm .end { text-anchor: end }
.storm .mono { font: 10.5px ui-monospace, monospace } .storm .name, .storm .head { font-weight: 600 }
.c0 { --c: #57606a } .c1 { --c: #cf222e } .c2 { --c: #0969da } .c3 { --c: #1a7f37 } .c4 { --c: #8250df } .c5 { --c: #9a6700 } .c6 { --c: #1f2328 }
.storm .name, .storm .key, .storm .cell { fill: var(--c) }
@media (prefers-color-scheme: dark) {
.storm { --paper: #0d1117; --ink: #e6edf3; --faint: #30363d; --band: #3a3014 } .storm .cell { fill-opacity: .6 }
.c0 { --c: #8b949e } .c1 { --c: #ff7b72 } .c2 { --c: #79c0ff } .c3 { --c: #56d364 } .c4 { --c: #d2a8ff } .c5 { --c: #e3b341 } .c6 { --c: #e6edf3 }
}
</style>
<rect class="paper" fill="#ffffff" width="100%" height="100%"/>
`

// The style's light colors, which elements also have as attributes, because not every
// program that draws SVG knows CSS variables.
const ink, faint, bright = "#1f2328", "#d0d7de", "#fff1c2"

var colors = [...]string{"#57606a", "#cf222e", "#0969da", "#1a7f37", "#8250df", "#9a6700", ink}

// filled returns the attributes of an area or a text of a color.
func filled(class string, color int) string {
	color %= len(colors)
	return fmt.Sprintf(`class="%s c%d" fill="%s"`, class, color, colors[color])
}

// drawn returns the attributes of a line of a color.
func drawn(class string, color int) string {
	color %= len(colors)
	stroke := colors[color]
	if class == "dash" {
		stroke = ink
	}
	return fmt.Sprintf(`class="%s c%d" fill="none" stroke="%s"`, class, color, stroke)
}

// label writes a text at a place.
func label(w io.Writer, class string, x, y float64, text string) {
	write(w, fmt.Sprintf(`class="%s"`, class), x, y, text)
}

// write is label with other attributes.
func write(w io.Writer, attributes string, x, y float64, text string) {
	fmt.Fprintf(w, `<text %s x="%.1f" y="%.1f">%s</text>`+"\n", attributes, x, y, html.EscapeString(text))
}

// svg draws the figure. Its colors follow the reader's light or dark scheme.
func (f *figure) svg(w io.Writer) {
	width, footer := cmp.Or(f.width, across), wrap(f.footer, 128)
	bottom := legend * float64(min(len(f.legend), 1))
	var tops []float64 // of the panels, below their headings
	for _, p := range f.panels {
		tops = append(tops, bottom+above+between*float64(len(p.heading(width-right-left))-1))
		bottom = tops[len(tops)-1] + f.height + below
	}
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" class="storm" fill="%s" viewBox="0 0 %.0f %.0f" role="img">`+"\n<title>%s</title>\n%s",
		ink, width, bottom+float64(len(footer))*15+8, html.EscapeString(f.title), style)
	at := left
	for _, s := range f.legend {
		if s.style == "area" {
			fmt.Fprintf(w, `<rect %s x="%.1f" y="9" width="22" height="10"/>`, filled("area", s.color), at)
		} else {
			fmt.Fprintf(w, `<polyline %s points="%.1f,14 %.1f,14"/>`, drawn(s.style, s.color), at, at+22)
		}
		label(w, "", at+28, 18, s.name)
		at += 50 + 7*float64(len(s.name))
	}
	for i, p := range f.panels {
		p.draw(w, left, width-right, tops[i], tops[i]+f.height)
	}
	for i, line := range footer {
		label(w, "mono", 14, bottom+float64(i)*15+8, line)
	}
	fmt.Fprintln(w, "</svg>")
}

// draw draws between x0 and x1, and between y0, the top, and y1.
func (p panel) draw(w io.Writer, x0, x1, y0, y1 float64) {
	heading := p.heading(x1 - x0)
	last := heading[len(heading)-1]
	for i, line := range heading[:len(heading)-1] {
		label(w, "head", x0-38, y0-11-between*float64(len(heading)-1-i), line)
	}
	fmt.Fprintf(w, `<text x="%.1f" y="%.1f"><tspan class="head">%s</tspan>`, x0-38, y0-11, html.EscapeString(last))
	beside := p.title == "" || letter*float64(utf8.RuneCountInString(last))+6*float64(utf8.RuneCountInString(p.y)) < x1-x0+38
	if beside {
		unit := p.y
		if p.title != "" && unit != "" {
			unit = "(" + unit + ")"
		}
		fmt.Fprintf(w, ` <tspan class="small">%s</tspan>`, html.EscapeString(unit))
	}
	fmt.Fprintln(w, "</text>")
	if p.names {
		x1 -= names
	}
	label(w, "small middle", (x0+x1)/2, y1+29, p.x)
	if p.cells != nil {
		p.drawMap(w, x0+40, x1, y0, y1)
		return
	}
	maxX, maxY := p.extent()
	stepX, stepY := step(maxX, max(int((x1-x0)/70), 2)), step(maxY, max(int((y1-y0)/34), 2))
	maxY = math.Ceil(maxY/stepY-1e-9) * stepY
	x := func(v float64) float64 { return x0 + float64(v/maxX*(x1-x0)) }
	y := func(v float64) float64 { return y1 - float64(min(v, maxY)/maxY*(y1-y0)) }
	if p.band != "" {
		fmt.Fprintf(w, `<rect class="band" fill="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, bright, x(p.from), y0, x(p.to)-x(p.from), y1-y0)
		label(w, "small", x(p.to)+4, y0+11, p.band)
	}
	for v := 0.0; v <= maxY+stepY/2; v += stepY {
		fmt.Fprintf(w, `<path class="axis" stroke="%s" d="M%.1f %.1fH%.1f"/>`, faint, x0, y(v), x1)
		label(w, "small end", x0-6, y(v)+4, fmt.Sprintf("%.4g", v))
	}
	for v := 0.0; v <= maxX*(1+1e-9); v += stepX {
		label(w, "small middle", x(v), y1+15, fmt.Sprintf("%.4g", v))
	}
	for i, line := range p.lines {
		p.drawLine(w, i, line, x, y)
	}
	if !beside {
		label(w, "small end", x1, y0+11, p.y)
	}
	if p.rule > 0 {
		fmt.Fprintf(w, `<path class="rule" stroke="%s" d="M%.1f %.1fH%.1f"/>`, ink, x0, y(p.rule), x1)
		label(w, "small end", x1, y(p.rule)-4, p.ruleName)
	}
	if p.names { // beside the ends of the lines, and apart
		end := func(s series) float64 { return s.points[len(s.points)-1].y }
		slices.SortStableFunc(p.lines, func(a, b series) int { return cmp.Compare(end(b), end(a)) })
		place := 0.0
		for i, line := range p.lines {
			place = min(max(y(end(line)), place+16), y1-16*float64(len(p.lines)-1-i))
			write(w, filled("name", line.color), x1+10, place+4, line.name)
		}
	}
}

func (p panel) drawLine(w io.Writer, i int, line series, x, y func(float64) float64) {
	var b strings.Builder
	for _, q := range line.points {
		fmt.Fprintf(&b, "%.1f,%.1f ", x(q.x), y(q.y))
	}
	if line.style == "area" {
		for _, q := range slices.Backward(line.points) {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(q.x), y(q.base))
		}
		fmt.Fprintf(w, `<polygon %s points="%s"/>`+"\n", filled("area", line.color), b.String())
		return
	}
	thick, later := "", float64(len(p.lines)-1-i)
	if p.names { // the earlier the wider, so that none hides behind a later one
		thick = fmt.Sprintf(` style="stroke-width:%.1f"`, 1.5+1.8*later)
	}
	fmt.Fprintf(w, `<polyline %s%s points="%s"/>`+"\n", drawn(line.style, line.color), thick, b.String())
}

// drawMap draws cells with their values.
func (p panel) drawMap(w io.Writer, x0, x1, y0, y1 float64) {
	wide, high := (x1-x0)/float64(len(p.columns)), (y1-y0)/float64(len(p.rows))
	for i, value := range p.cells {
		x, y := x0+float64(i/len(p.rows))*wide, y1-float64(i%len(p.rows)+1)*high
		color, missing := 2, 1.
		if value < 95 { // the darker, the worse
			color, missing = 1, 1-value/100
		}
		fmt.Fprintf(w, `<rect %s style="opacity:%.2f" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`,
			filled("cell", color), .15+.6*missing, x+1, y+1, wide-2, high-2)
		label(w, "middle", x+wide/2, y+high/2+5, fmt.Sprintf("%.0f %%", value))
	}
	for i, name := range p.columns {
		label(w, "small middle", x0+(float64(i)+.5)*wide, y1+15, name)
	}
	for i, name := range p.rows {
		label(w, "small end", x0-6, y1-(float64(i)+.5)*high+4, name)
	}
}

// letter is how wide a letter of a heading is, about.
const letter = 8.5

// heading returns the lines of the title, which may be a policy's text, over axes of a width.
func (p panel) heading(width float64) []string { return wrap(p.title, int((width+38)/letter)) }

// step returns a round number that fits at most n times into a length.
func step(length float64, n int) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(length/float64(n))))
	for _, k := range []float64{1, 2, 5} {
		if length/(k*unit) <= float64(n) {
			return k * unit
		}
	}
	return 10 * unit
}

// wrap breaks a text into lines of so many letters, between words where it can.
func wrap(text string, columns int) (lines []string) {
	var line []rune
	for _, field := range strings.Fields(text) {
		word := []rune(field)
		if len(line) > 0 && len(line)+1+len(word) > columns {
			lines, line = append(lines, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for line = append(line, word...); len(line) > columns; line = line[columns:] {
			lines = append(lines, string(line[:columns]))
		}
	}
	return append(lines, string(line))
}
