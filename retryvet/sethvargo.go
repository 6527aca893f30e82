package retryvet

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"
)

// A sequence is what the functions of sethvargo/go-retry that make a backoff agree on.
type sequence struct {
	kind       string // Constant, Exponential or Fibonacci
	base, most amount
	jitter     string // "": none
}

// planSethvargo understands a call of sethvargo/go-retry, or says why not.
func planSethvargo(m *migration) string {
	m.ctx, m.op = m.call.Args[0], m.call.Args[2]
	m.kept = append(m.kept, m.ctx)
	m.sequence = &sequence{}
	var reason string
	if m.name == "Do" || m.name == "DoValue" {
		reason = m.backOff(m.call.Args[1])
	} else {
		reason = m.sequenceOf(m.name, m.call.Args[1])
	}
	if reason != "" {
		return reason
	}
	return m.writeSequence()
}

// sethvargoWaits understands a call that makes a backoff, or one of another.
func sethvargoWaits(m *migration, name string, call *ast.CallExpr) (reason string) {
	if kind, makes := strings.CutPrefix(name, "New"); makes {
		return m.sequenceOf(kind, call.Args[0])
	}
	if reason := m.backOff(call.Args[len(call.Args)-1]); reason != "" {
		return reason
	}
	q := m.sequence
	jittered := q.jitter != ""
	switch name {
	case "WithMaxRetries":
		if m.attempts != "" {
			return "it limits retries twice"
		}
		m.attempts, reason = m.count(call.Args[0], 1)
		return reason
	case "WithCappedDuration":
		if q.most.is != unset || jittered {
			return "it caps its waits twice, or after their jitter"
		}
		q.most, reason = m.amount(call.Args[0])
		if reason == "" && q.most.is != varies && q.most.d == 0 {
			reason = "its longest wait is zero"
		}
		return reason
	case "WithJitterPercent":
		percent, isConstant := m.number(call.Args[0])
		if !isConstant || percent < 1 || percent > 100 {
			return "its jitter is not a constant from 1 to 100"
		}
		q.jitter = qualifier + ".PlusMinus(" + strconv.FormatFloat(float64(percent)/100, 'g', -1, 64) + ")"
		if q.most.is != unset {
			m.told = append(m.told, "waits at the cap may be shorter: theirs exceed it")
		}
	case "WithFullJitter":
		q.jitter = qualifier + ".FullJitter"
	case "WithMaxDuration":
		return "WithMaxDuration cuts the last wait short for one more call, which MaxElapsed does not"
	default:
		return name + " has no exact counterpart"
	}
	if jittered {
		return "it has two jitters"
	}
	return ""
}

func (m *migration) sequenceOf(kind string, base ast.Expr) (reason string) {
	m.sequence.kind = kind
	m.sequence.base, reason = m.amount(base)
	if reason == "" && m.sequence.base.is != varies && m.sequence.base.d == 0 {
		reason = "its first wait is zero, which panics there"
	}
	return reason
}

// writeSequence writes the backoff.
func (m *migration) writeSequence() string {
	q := m.sequence
	if (q.base.is == varies || q.most.is == varies) && (q.kind != "Constant" || q.jitter != "") {
		m.told = append(m.told, "a zero wait would mean the default")
	}
	switch {
	case q.kind == "Fibonacci":
		waits := q.fibonacci(m.limit - 1)
		if waits == nil || q.jitter != "" {
			return "its waits begin with 1, 2, those of Fibonacci here with 1, 1; only a few whose times are known become a Schedule"
		}
		m.backoff = fmt.Sprintf("%s.Schedule{%s}", qualifier, strings.Join(waits, ", "))
	case q.kind == "Constant" && q.jitter == "":
		m.backoff = qualifier + ".Constant(" + avastConfig{delay: q.base, most: q.most}.fixed() + ")"
	default:
		factor, limit, jitter := "", q.most.text, ""
		attempts := m.limit
		if q.kind == "Constant" {
			factor = ", Factor: 1"
			attempts = 2
		}
		if q.most.is == unset {
			limit = unreached(attempts, q.base.jittered(), amount{})
		}
		if limit != "" {
			limit = ", Max: " + limit
		}
		switch q.jitter {
		case "":
			jitter = ", Jitter: " + qualifier + ".NoJitter"
		case qualifier + ".FullJitter": // the zero value
		default:
			jitter = ", Jitter: " + q.jitter
		}
		m.backoff = fmt.Sprintf("%s.Exponential{Base: %s%s%s%s}", qualifier, q.base.text, limit, factor, jitter)
	}
	return ""
}

// jittered returns an amount that no jitter of a exceeds.
func (a amount) jittered() amount { return amount{a.text, 2 * a.d, a.is} }

// fibonacci returns the waits before so many retries, or all up to the longest, nil if
// these are more than eight or only the program knows them.
func (q *sequence) fibonacci(retries int64) []string {
	if q.base.is == varies || q.most.is == varies || q.most.is == unset && retries < 1 {
		return nil
	}
	var all []string
	for n, next := int64(1), int64(2); ; n, next = next, n+next {
		wait := time.Duration(n) * q.base.d
		if q.most.is != unset && wait >= q.most.d {
			return append(all, q.most.text)
		}
		switch {
		case q.base.is == plain:
			all = append(all, duration(wait))
		case n == 1:
			all = append(all, q.base.text)
		default:
			all = append(all, fmt.Sprintf("%d * %s", n, operand(q.base.text)))
		}
		if retries > 0 && int64(len(all)) == retries {
			return all
		}
		if len(all) == 8 {
			return nil
		}
	}
}

// turnMarks turns the marks of the operation round: there an error is repeated if it is
// marked, here unless it is.
func (m *migration) turnMarks() string {
	if m.literal == nil {
		return "its marks are not in the call, where they could be turned round"
	}
	count := m.TypesInfo.TypeOf(m.literal).(*types.Signature).Results().Len()
	turned := map[*ast.Ident]bool{}
	known, reason := true, "" // known: DefaultClassifier repeats what is marked
	unmarked := false
	ast.Inspect(m.literal.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if len(n.Results) != count {
				reason = "its operation has a return that does not name the error"
				return false
			}
			e := n.Results[count-1]
			mark, arg := m.marked(e)
			switch {
			case m.isNil(e):
			case mark != nil:
				known = known && mark == ast.Unparen(e) && m.isPlain(arg)
				turned[mark.Fun.(*ast.SelectorExpr).Sel] = true
				m.turned = append(m.turned, analysis.TextEdit{Pos: mark.Pos(), End: arg.Pos()}, analysis.TextEdit{Pos: arg.End(), End: mark.End()})
			default:
				unmarked = unmarked || !m.isPlain(e)
				m.turned = append(m.turned, analysis.TextEdit{Pos: e.Pos(), End: e.Pos(), NewText: []byte(qualifier + ".Stop(")},
					analysis.TextEdit{Pos: e.End(), End: e.End(), NewText: []byte(")")})
			}
		}
		return true
	})
	ast.Inspect(m.literal.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && reason == "" && !turned[id] {
			if lib, _ := m.of(id); lib.is(m.lib) {
				reason = "a mark in its operation is not returned at once"
			}
		}
		return true
	})
	switch {
	case reason != "":
		return reason
	case unmarked && m.mayBeMarked():
		return "an error that its operation returns may have been marked elsewhere"
	}
	if !known && m.attempts != "1" {
		m.repeats = more
		m.told = append(m.told, "Classify repeats every error, as before those that were marked: delete it to let retry.DefaultClassifier decide")
	}
	return ""
}

// marked returns the call that marks the error e, and what it marks: e is that call, or
// wraps it.
func (m *migration) marked(e ast.Expr) (mark *ast.CallExpr, arg ast.Expr) {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return nil, nil
	}
	if path, name := m.callee(call); path == m.lib.path && slices.Contains(m.lib.marks, name) {
		if _, ok := call.Fun.(*ast.SelectorExpr); ok {
			return call, call.Args[0]
		}
	}
	if m.isCall(call, "fmt", "Errorf") && len(call.Args) > 1 && m.wraps(call) {
		return m.marked(call.Args[len(call.Args)-1])
	}
	return nil, nil
}

// wraps reports whether %w is the last verb of a call of fmt.Errorf.
func (p *pass) wraps(call *ast.CallExpr) bool {
	format := p.TypesInfo.Types[call.Args[0]].Value
	if format == nil {
		return false
	}
	text := format.ExactString()
	return strings.LastIndex(text, "%") == strings.LastIndex(text, "%w")
}

// mayBeMarked reports whether an error that the operation gets may be marked already.
func (m *migration) mayBeMarked() bool {
	for _, n := range m.reachable(m.literal.Body)[1:] {
		if m.mentionsLibrary(n) {
			return true
		}
	}
	return m.dependencyImports() || m.callsUnknown()
}
