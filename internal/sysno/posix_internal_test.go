//go:build !plan9

package sysno

import (
	"testing"

	"github.com/goretry/retry/internal/clienterr"
)

// The names in package syscall are not what Windows Sockets return.
func TestWindowsSocketErrors(t *testing.T) {
	for number, want := range map[Number]clienterr.Class{
		10061: clienterr.Unprocessed, 10051: clienterr.Unprocessed, 10065: clienterr.Unprocessed, 10049: clienterr.Unprocessed, // refused, unreachable, no address
		10050: clienterr.Unprocessed, 10064: clienterr.Unprocessed, // network or host is down
		10054: clienterr.Transient, 10053: clienterr.Transient, 10060: clienterr.TimedOut, // reset, aborted, timed out
		10004: clienterr.Transient, 10035: clienterr.Transient, // interrupted, would block
		10024: clienterr.Throttled, 10055: clienterr.Throttled, // sockets, buffers
		10013: clienterr.Permanent, 10022: clienterr.Permanent, 10047: clienterr.Permanent, 10040: clienterr.Permanent, 10041: clienterr.Permanent, // access, argument, family, size, type
		10057: clienterr.Unknown,
	} {
		if got := classIn(of("windows"), number); got != want {
			t.Errorf("%d is %v, want %v", number, got, want)
		}
	}
	if got := classIn(of("linux"), 10061); got != clienterr.Unknown {
		t.Errorf("on Linux 10061 is %v, want unknown", got)
	}
}

// A number stands once.
func TestNumbersAreListedOnce(t *testing.T) {
	seen := map[Number]bool{}
	for _, k := range all {
		for _, n := range k.Numbers {
			if seen[n] {
				t.Errorf("%d, %v, stands twice", n, n)
			}
			seen[n] = true
		}
	}
}

// Not every system has a name for it.
func TestHostIsDown(t *testing.T) {
	if got := Class(hostDown); got != clienterr.Unprocessed {
		t.Errorf("%v, want unprocessed", got)
	}
}
