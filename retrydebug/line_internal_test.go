package retrydebug

import (
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"
)

func TestLine(t *testing.T) {
	for _, tt := range []struct {
		s    string
		most int
		want string
	}{
		{"", 4, ""}, {"four", 4, "four"}, {"fives", 4, "f…"}, {"éé", 4, "éé"}, {"ééé", 4, "…"}, {"ééé", 5, "é…"}, {"€€", 5, "…"},
		{"a\nb\r\nc\rd", 9, "a b c d"}, {"a\tb\vc\fd\u0085e\u2028f\u2029g", 20, "a b c d e f g"}, {"\n\r", 2, "  "}, {"\b\t\r\x0e", 8, "\uFFFD  \uFFFD"},
		{"\x00\x1b[31m\x7f\u009b", 40, "\uFFFD\uFFFD[31m\uFFFD\uFFFD"},
		{"a\u202eb\u2066\u200f\u061cc", 40, "a\uFFFDb\uFFFD\uFFFD\uFFFDc"},
		{"a\xff\xfeb", 40, "a\uFFFD\uFFFDb"}, {"\x00\x00", 5, "…"}, {"\x00\x00", 6, "\uFFFD\uFFFD"},
	} {
		if got := line(tt.s, tt.most); got != tt.want {
			t.Errorf("Line(%q, %d) = %q, want %q", tt.s, tt.most, got, tt.want)
		}
	}
}

// What is kept of a text must not keep the text.
func TestLineIsACopy(t *testing.T) {
	for _, s := range []string{"four", "connection refused"} {
		if got := line(s, 8); unsafe.StringData(got) == unsafe.StringData(s) {
			t.Errorf("line(%q) is a part of it", s)
		}
	}
	long := strings.Repeat("connection refused ", 10)
	if got := testing.AllocsPerRun(100, func() { line(long, 256) }); got != 1 {
		t.Errorf("%v allocations, want 1", got)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\nb\u202ec\xff", uint8(4))
	f.Fuzz(func(t *testing.T, s string, most uint8) {
		got := line(s, int(most))
		if len(got) > max(int(most), len("…")) || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x00\x1b\u202e") {
			t.Errorf("line(%q, %d) = %q", s, most, got)
		}
	})
}
