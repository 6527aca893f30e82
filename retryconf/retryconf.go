package retryconf

import (
	"fmt"

	"github.com/goretry/retry"
)

// SyntaxError says what [Parse] could not read.
type SyntaxError struct {
	Text    string // all of it
	Column  int    // where, in characters from 1
	Message string // what was found there, and what was expected
}

// Error tells the column and the message, in one line.
func (e *SyntaxError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Message) }

// Parse reads a policy; the package documentation has the text's fields. Each call
// makes a new budget: parse once, and share the policy among all calls to the same
// dependency. The error is a *[SyntaxError], and then the policy is the zero one.
func Parse(text string) (retry.Policy, error) {
	r := reader{text: text}
	var l line
	l.read(&r)
	if r.err != nil {
		return retry.Policy{}, r.err
	}
	return l.policy, nil
}

// Format writes a policy as the text from which [Parse] makes one that decides the
// same. Classify, Hooks, Clock and Rand are code, and left out, and so is what a
// budget has spent. A Backoff or Budget that is not package retry's own is written
// as its type, which Parse refuses.
func Format(p retry.Policy) string {
	text, _ := format(p)
	return text
}

// Policy is a [retry.Policy] that is a line of text in flags, JSON, YAML and
// environment variables. The zero value is the zero policy, and the empty text.
//
// Reading a text replaces every field that the text can set, also those that it
// leaves out, and keeps Classify, Hooks, Clock and Rand: a program sets these
// before or after. A Policy is read before it is used, not while.
type Policy struct{ retry.Policy }

// String returns the policy's text, as [Format] does.
func (p Policy) String() string { return Format(p.Policy) }

// Set reads a text, as a [flag.Value] does. After an error the policy is what it
// was before.
func (p *Policy) Set(text string) error {
	q, err := Parse(text)
	if err != nil {
		return err
	}
	q.Classify, q.Hooks, q.Clock, q.Rand = p.Classify, p.Hooks, p.Clock, p.Rand
	p.Policy = q
	return nil
}

// UnmarshalText reads a text, as Set does.
func (p *Policy) UnmarshalText(text []byte) error { return p.Set(string(text)) }

// MarshalText returns the policy's text. It returns an error for a Backoff or
// Budget that is not package retry's own, since that has no text.
func (p Policy) MarshalText() ([]byte, error) {
	text, err := format(p.Policy)
	if err != nil {
		return nil, err
	}
	return []byte(text), nil
}
