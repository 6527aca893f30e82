package migrate

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"
)

// This file has the text of files and of edits: nothing in it knows of a call.

// sources gives the text of a file with edits made.
type sources struct {
	tokens *token.File
	source []byte
	edits  []analysis.TextEdit
}

// text returns the text of n, with the edits that are within it.
func (s *sources) text(n ast.Node) string {
	if !n.Pos().IsValid() {
		return ""
	}
	var b strings.Builder
	at := n.Pos()
	edits := slices.Clone(s.edits)
	slices.SortStableFunc(edits, byPlace)
	for _, e := range edits {
		if n.Pos() <= e.Pos && e.End <= n.End() {
			b.Write(s.source[s.tokens.Offset(at):s.tokens.Offset(e.Pos)])
			b.Write(e.NewText)
			at = e.End
		}
	}
	b.Write(s.source[s.tokens.Offset(at):s.tokens.Offset(n.End())])
	return b.String()
}

// column returns how far n stands from the start of its line, a tab as four columns.
func (s *sources) column(n ast.Node) int {
	at := s.tokens.Offset(n.Pos())
	line := s.source[bytes.LastIndexByte(s.source[:at], '\n')+1 : at]
	return len(line) + 3*bytes.Count(line, []byte("\t"))
}

// line returns the edit that deletes a statement or comment and, if nothing else is on it, its
// line.
func (s *sources) line(stmt ast.Node) analysis.TextEdit {
	from, to := s.tokens.Offset(stmt.Pos()), s.tokens.Offset(stmt.End())
	start, end := from, to
	for start > 0 && (s.source[start-1] == ' ' || s.source[start-1] == '\t') {
		start--
	}
	for end < len(s.source) && (s.source[end] == ' ' || s.source[end] == '\t' || s.source[end] == '\r') {
		end++
	}
	if (start == 0 || s.source[start-1] == '\n') && end < len(s.source) && s.source[end] == '\n' {
		from, to = start, end+1
	}
	return analysis.TextEdit{Pos: s.tokens.Pos(from), End: s.tokens.Pos(to)}
}

// lineEnd returns where the line of pos ends.
func (s *sources) lineEnd(pos token.Pos) token.Pos {
	at := s.tokens.Offset(pos)
	if n := bytes.IndexByte(s.source[at:], '\n'); n >= 0 {
		return s.tokens.Pos(at + n)
	}
	return s.tokens.Pos(s.tokens.Size())
}

// lines returns the edits that delete statements and comments, which are sorted. Where they opened a block, the blank
// line after them goes as well.
func (s *sources) lines(nodes []ast.Node) []analysis.TextEdit {
	var all []analysis.TextEdit
	for _, n := range nodes {
		e := s.line(n)
		if i := len(all) - 1; i >= 0 && all[i].End == e.Pos {
			all[i].End = e.End
		} else {
			all = append(all, e)
		}
	}
	for i, e := range all {
		before := bytes.TrimSpace(s.source[:s.tokens.Offset(e.Pos)])
		line, _, _ := bytes.Cut(before[bytes.LastIndexByte(before, '\n')+1:], []byte(" //"))
		if end := s.tokens.Offset(e.End); bytes.HasSuffix(line, []byte("{")) && end < len(s.source) && s.source[end] == '\n' {
			all[i].End++
		}
	}
	return all
}

// byPlace compares edits in the order of the source: what is inserted before what is
// deleted.
func byPlace(a, b analysis.TextEdit) int {
	return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.End, b.End))
}

// span is a part of a file.
type span struct{ pos, end token.Pos }

func (s span) Pos() token.Pos { return s.pos }

func (s span) End() token.Pos { return s.end }

// qualifier stands for the name of package retry until it is known.
const qualifier = "\x00"

// These stand for the names of standard packages until they are known.
const (
	timeQualifier   = "\x01"
	errorsQualifier = "\x02"
	cmpQualifier    = "\x03"
	mathQualifier   = "\x04"
)

// standard are the standard packages that a rewritten call may need.
var standard = []struct{ path, qualifier string }{{"cmp", cmpQualifier}, {"errors", errorsQualifier}, {"math", mathQualifier}, {"time", timeQualifier}}

// duration writes d as a person would.
func duration(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"}, {time.Millisecond, "Millisecond"},
		{time.Microsecond, "Microsecond"}, {1, "Nanosecond"}} {
		if d%unit.d != 0 {
			continue
		}
		if d == unit.d {
			return timeQualifier + "." + unit.name
		}
		return fmt.Sprintf("%d * %s.%s", d/unit.d, timeQualifier, unit.name)
	}
	panic("unreachable: every duration is so many nanoseconds")
}

// formatted returns a statement as gofmt has it, with its lines indented.
func formatted(stmt string) string {
	if text, err := format.Source([]byte(stmt)); err == nil {
		stmt = string(text)
	}
	return "\t" + strings.ReplaceAll(stmt, "\n", "\n\t")
}

// byHand is the text of a finding that has what to write.
func byHand(reasons []string, stmt string) string {
	return strings.Join(reasons, "; ") + ". By hand:\n" + stmt
}

// plusOne returns the text of a sum of a number and 1.
func plusOne(text string) string {
	for _, less := range []string{"-1", " - 1"} {
		if before, ok := strings.CutSuffix(text, less); ok {
			return before
		}
	}
	return text + " + 1"
}

// operand returns the text of an expression as it stands in a product.
func operand(text string) string {
	if strings.ContainsAny(text, " +-*/") && !strings.HasSuffix(text, ")") {
		return "(" + text + ")"
	}
	return text
}

// freeName returns the first name that no identifier in n has, "" if there is none.
func freeName(n ast.Node, names ...string) string {
	taken := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			taken[id.Name] = true
		}
		return true
	})
	for _, name := range names {
		if !taken[name] {
			return name
		}
	}
	return ""
}
