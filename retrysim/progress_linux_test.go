package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// pseudo returns both ends of a terminal.
func pseudo(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { screen.Close() })
	var locked, number int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Skip(errno)
		}
	}
	tty, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	return screen, tty
}

// On a terminal a line says how far the command is. It is gone at the end, and the output
// is what it is without.
func TestProgressOnATerminal(t *testing.T) {
	beat = 5 * time.Millisecond
	t.Cleanup(func() { beat = time.Second })
	screen, tty := pseudo(t)
	read := make(chan string)
	go func() {
		all, _ := io.ReadAll(screen) // an error says that tty is closed
		read <- string(all)
	}()
	args := []string{"try", "-seeds", "2"}
	var out bytes.Buffer
	code := run(t.Context(), args, &out, tty)
	tty.Close()
	shown, removed := seen(<-read)
	if code != 0 || len(shown) < 2 || !removed {
		t.Fatalf("code %d, %q, removed: %v", code, shown, removed)
	}
	for _, line := range shown {
		if !aLine.MatchString(line) {
			t.Errorf("%q", line)
		}
	}
	if len(slices.Compact(shown)) < 2 || strings.HasPrefix(shown[len(shown)-1], "try: 0 ") {
		t.Errorf("nothing moves in %q", shown)
	}
	if plain := output(t, args...); plain != out.String() {
		t.Errorf("with a terminal the output is\n%s\nand without\n%s", out.String(), plain)
	}
}
