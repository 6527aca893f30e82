package retryconf

import (
	"fmt"

	"github.com/goretry/retry"
)

// syntaxError says what could not be parsed.
type syntaxError struct {
	text    string // all of it: a file may have several policies
	column  int    // where, in characters from 1
	message string // what was found there, and what was expected
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("retry policy %q, column %d: %s", e.text, e.column, e.message)
}

// parse returns the policy of a text.
func parse(text string) (retry.Policy, error) {
	r := reader{text: text}
	var l line
	l.read(&r)
	if r.err != nil {
		return retry.Policy{}, r.err
	}
	l.policy.Budget = shared(l.policy, r.owner)
	return l.policy, nil
}

// Policy is a [retry.Policy] that is a line of text in flags, JSON, YAML and
// environment variables, or of any string:
//
//	var p retryconf.Policy
//	err := p.UnmarshalText([]byte("attempts=4 budget=earned"))
//
// The zero value is the zero policy, and the empty text.
//
// Parsing a text replaces every field that a text can set, even those that this text
// leaves out. It keeps Classify, Guards, Hooks, Clock and Rand, which a program may set
// before or after. Do not parse into a Policy while it is in use.
type Policy struct{ retry.Policy }

// String returns the text from which UnmarshalText makes an equivalent policy. It leaves out
// Classify, Guards, Hooks, Clock and Rand, which are code. A Backoff or Budget without a text,
// such as a [retry.BackoffFunc], is written as its type, which UnmarshalText refuses.
func (p Policy) String() string {
	text, _ := format(p.Policy)
	return text
}

// UnmarshalText parses a text. The package documentation lists the fields. The error says in one
// line that text is a retry policy, and at which column, in characters from 1, what was found and
// what was expected; the policy is unchanged then. [flag.TextVar] makes a flag of a Policy.
func (p *Policy) UnmarshalText(text []byte) error {
	q, err := parse(string(text))
	if err != nil {
		return err
	}
	q.Classify, q.Guards, q.Hooks, q.Clock, q.Rand = p.Classify, p.Guards, p.Hooks, p.Clock, p.Rand
	p.Policy = q
	return nil
}

// MarshalText returns what String returns. It returns an error for a Backoff or Budget that
// has no text.
func (p Policy) MarshalText() ([]byte, error) {
	text, err := format(p.Policy)
	if err != nil {
		return nil, err
	}
	return []byte(text), nil
}
