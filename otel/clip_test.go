package otelretry

import (
	"runtime"
	"testing"
	"time"
	"unsafe"
)

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		s    string
		most int
		want string
	}{
		{"", 4, ""}, {"four", 4, "four"}, {"fives", 4, "five"}, {"abé", 3, "ab"}, {"aé", 3, "aé"}, {"a€", 3, "a"},
		{"\xff", 4, "\uFFFD"}, {"ab\xff", 4, "ab"}, {"\x80\x80\x80\x80\x80\x80", 4, ""}, {"a\nb", 4, "a\nb"},
		{"\x80\x80\x80", 2, ""}, {"\x80\x80\x80\x80\x80\x80\x80", 5, "\uFFFD"},
		{"a", 0, ""}, {"a", -1, ""},
	} {
		if got := clip(tt.s, tt.most); got != tt.want {
			t.Errorf("clip(%q, %d) = %q, want %q", tt.s, tt.most, got, tt.want)
		}
	}
}

// What is kept of a text must not keep the text.
func TestNothingLargerIsKept(t *testing.T) {
	for name, cut := range map[string]func(string) string{
		"clip":               func(s string) string { return clip(s, 8) },
		"a part within clip": func(s string) string { return clip(s[:4], 8) },
	} {
		freed := make(chan bool)
		large := make([]byte, 1<<20)
		kept := cut(part(large))
		runtime.AddCleanup(&large[0], func(c chan bool) { close(c) }, freed)
		large = nil
		for range 10 {
			runtime.GC()
			select {
			case <-freed:
			case <-time.After(2 * time.Second):
				continue
			}
			break
		}
		select {
		case <-freed:
		default:
			t.Errorf("%s: %d bytes keep 1 MiB", name, len(kept))
		}
		runtime.KeepAlive(kept)
	}
}

// part returns the text that b holds, without a copy.
func part(b []byte) string { return unsafe.String(&b[0], len(b)) }
