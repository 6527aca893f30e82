package main

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/storm"
)

// chart is one or more panels over the same axis.
type chart struct {
	x      string
	panels []panel
	from   float64 // of a band with a name
	to     float64
	band   string // "": none
	names  []string
}

// panel has a line for each of the chart's names.
type panel struct {
	y     string
	lines [][]point
}

type point struct{ x, y float64 }

// point adds a point to a panel's line of that name.
func (c *chart) point(panel int, name string, x, y float64) {
	i := slices.Index(c.names, name)
	if i < 0 {
		i = len(c.names)
		c.names = append(c.names, name)
	}
	p := &c.panels[panel]
	for len(p.lines) <= i {
		p.lines = append(p.lines, nil)
	}
	p.lines[i] = append(p.lines[i], point{x, y})
}

// overTime returns a chart of load and success.
func overTime(duration, from, to time.Duration, band string) chart {
	return chart{
		x:      "seconds",
		panels: []panel{{y: "requests sent per second"}, {y: "share of the calls begun in that second that succeed"}},
		from:   from.Seconds(), to: to.Seconds(), band: band,
	}
}

// result adds what happened in each second.
func (c *chart) result(name string, r *storm.Result) {
	n := int(time.Second / r.Bucket)
	for i := 0; i+n <= len(r.Buckets); i += n {
		var asked, sent, good int
		for _, b := range r.Buckets[i : i+n] {
			asked, sent, good = asked+b.Asked, sent+b.Sent, good+b.Good
		}
		middle := (float64(i) + float64(n)/2) * r.Bucket.Seconds()
		c.point(0, name, middle, float64(sent)/float64(r.Runs))
		c.point(1, name, middle, float64(good)/float64(max(asked, 1)))
	}
}

// extent returns the greatest coordinates of a panel.
func (p panel) extent() (x, y float64) {
	for _, line := range p.lines {
		for _, q := range line {
			x, y = max(x, q.x), max(y, q.y)
		}
	}
	return max(x, 1e-9), max(y, 1e-9)
}

// text draws the first panel with blocks: a row for each name.
func (c *chart) text(w io.Writer) {
	const columns = 64
	p := c.panels[0]
	right, top := p.extent()
	fmt.Fprintf(w, "\n%s, up to %.4g, over %s up to %.4g\n\n", p.y, top, c.x, right)
	for i, line := range p.lines {
		heights := make([]float64, columns)
		column := func(q point) int { return min(int(q.x/right*columns), columns-1) }
		for i, q := range line {
			n := column(q)
			heights[n] = max(heights[n], q.y)
			if i == 0 {
				continue
			}
			before := line[i-1]
			first := column(before)
			for m := first + 1; m < n; m++ { // between two points, a straight line
				heights[m] = before.y + (q.y-before.y)*float64(m-first)/float64(n-first)
			}
		}
		var bar strings.Builder
		for _, h := range heights {
			bar.WriteRune([]rune(" ▁▂▃▄▅▆▇█")[int(math.Ceil(h/top*8))])
		}
		fmt.Fprintf(w, "%-20s %s\n", c.names[i], bar.String())
	}
}

// Sizes in a picture.
const (
	width  = 860
	height = 230 // of a panel
	left   = 56
	right  = 170 // for the names
	above  = 30
	below  = 46
)

const style = `<style>
.storm { --paper: #ffffff; --ink: #1f2328; --faint: #d0d7de; --band: #fff1c2; font: 13px system-ui, sans-serif; fill: var(--ink) }
.storm polyline { fill: none; stroke-width: 2; stroke-linejoin: round }
.storm .axis { stroke: var(--faint) } .storm .paper { fill: var(--paper) } .storm .band { fill: var(--band) } .storm .name { font-weight: 600 }
.c0 { --c: #57606a } .c1 { --c: #cf222e } .c2 { --c: #0969da } .c3 { --c: #1a7f37 } .c4 { --c: #8250df } .c5 { --c: #9a6700 }
.storm polyline, .storm circle { stroke: var(--c) } .storm .name, .storm circle { fill: var(--c) }
@media (prefers-color-scheme: dark) {
.storm { --paper: #0d1117; --ink: #e6edf3; --faint: #30363d; --band: #3a3014 }
.c0 { --c: #8b949e } .c1 { --c: #ff7b72 } .c2 { --c: #79c0ff } .c3 { --c: #56d364 } .c4 { --c: #d2a8ff } .c5 { --c: #e3b341 }
}
</style>
`

// svg draws the chart. Its colors follow the reader's light or dark scheme.
func (c *chart) svg(w io.Writer, title string) {
	total := len(c.panels) * (above + height + below)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" class="storm" viewBox="0 0 %d %d" role="img">`+"\n<title>%s</title>\n"+style, width, total, html.EscapeString(title))
	fmt.Fprintf(w, `<rect class="paper" width="%d" height="%d"/>`+"\n", width, total)
	for i, p := range c.panels {
		c.draw(w, p, float64(i*(above+height+below)+above))
	}
	fmt.Fprintln(w, "</svg>")
}

func (c *chart) draw(w io.Writer, p panel, top float64) {
	maxX, maxY := p.extent()
	stepX, stepY := step(maxX, 8), step(maxY, 4)
	maxY = math.Ceil(maxY/stepY) * stepY
	x := func(v float64) float64 { return left + float64(v/maxX*(width-left-right)) }
	y := func(v float64) float64 { return top + height - float64(v/maxY*height) }
	fmt.Fprintf(w, `<text x="14" y="%.0f">%s</text>`+"\n", top-12, html.EscapeString(p.y))
	if c.band != "" {
		fmt.Fprintf(w, `<rect class="band" x="%.1f" y="%.0f" width="%.1f" height="%d"/>`, x(c.from), top, x(c.to)-x(c.from), height)
		if top == above {
			fmt.Fprintf(w, `<text x="%.1f" y="%.0f">%s</text>`, x(c.to)+5, top+14, c.band)
		}
	}
	for i := range int(maxY/stepY+1e-9) + 1 {
		v := float64(i) * stepY
		fmt.Fprintf(w, `<path class="axis" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%.4g</text>`+"\n", left, y(v), width-right, left-8, y(v)+4, v)
	}
	for i := range int(maxX/stepX+1e-9) + 1 {
		v := float64(i) * stepX
		fmt.Fprintf(w, `<text x="%.1f" y="%.0f" text-anchor="middle">%.4g</text>`+"\n", x(v), top+height+18, v)
	}
	fmt.Fprintf(w, `<text x="%d" y="%.0f" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, top+height+35, html.EscapeString(c.x))
	for i, line := range p.lines {
		fmt.Fprintf(w, `<polyline class="c%d" points="`, i%6)
		for _, q := range line {
			fmt.Fprintf(w, "%.1f,%.1f ", x(q.x), y(q.y))
		}
		fmt.Fprintln(w, `"/>`)
		if len(line) < 5 {
			for _, q := range line {
				fmt.Fprintf(w, `<circle class="c%d" cx="%.1f" cy="%.1f" r="3"/>`+"\n", i%6, x(q.x), y(q.y))
			}
		}
	}
	for i, at := range labelPlaces(p, y, top) {
		fmt.Fprintf(w, `<text class="name c%d" x="%d" y="%.1f">%s</text>`+"\n", i%6, width-right+10, at+4, html.EscapeString(c.names[i]))
	}
}

// labelPlaces returns where the names stand: beside the ends of their lines, and
// apart.
func labelPlaces(p panel, y func(float64) float64, top float64) []float64 {
	const apart = 16
	places, order := make([]float64, len(p.lines)), make([]int, len(p.lines))
	for i, line := range p.lines {
		order[i] = i
		tail := line[len(line)-max(len(line)/16, 1):] // the last point may be a fluctuation
		for _, q := range tail {
			places[i] += y(q.y) / float64(len(tail))
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(places[a] - places[b]) })
	for n, i := range order[1:] {
		places[i] = max(places[i], places[order[n]]+apart)
	}
	limit := top + height
	for _, i := range slices.Backward(order) {
		places[i] = min(places[i], limit)
		limit = places[i] - apart
	}
	return places
}

// step returns a round number of which at most n fit into a length.
func step(length float64, n int) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(length/float64(n))))
	for _, k := range []float64{1, 2, 5} {
		if length/(k*unit) <= float64(n) {
			return k * unit
		}
	}
	return 10 * unit
}
