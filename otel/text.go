package otelretry

import (
	"fmt"
	"strings"
)

// text returns what err says, at most 4 KiB of it. An Error method is someone
// else's and may panic.
func text(err error) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("%T: its Error method panics", err)
		}
		s = valid(s[:min(len(s), 4<<10)])
	}()
	return err.Error()
}

// valid returns s as exporters need it: with a text that is not UTF-8 they lose
// all that is sent together with it.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
