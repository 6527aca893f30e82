//go:build !plan9

package retry

import "testing"

// The names in package syscall are not what Windows Sockets return.
func TestWindowsSocketErrors(t *testing.T) {
	defer func(before []errnoClass) { errnos = before }(errnos)
	errnos = errnosOf("windows")
	for number, want := range map[errno]Class{
		10061: Unprocessed, 10051: Unprocessed, 10065: Unprocessed, 10049: Unprocessed, // refused, unreachable, no address
		10050: Unprocessed, 10064: Unprocessed, // network or host is down
		10054: Transient, 10053: Transient, 10060: TimedOut, // reset, aborted, timed out
		10004: Transient, 10035: Transient, // interrupted, would block
		10024: Throttled, 10055: Throttled, // sockets, buffers
		10013: Permanent, 10022: Permanent, 10047: Permanent, 10040: Permanent, 10041: Permanent, // access, argument, family, size, type
		10057: Unknown,
	} {
		if got := DefaultClassifier(number); got != want {
			t.Errorf("%d is %v, want %v", number, got, want)
		}
	}
	errnos = errnosOf("linux")
	if got := DefaultClassifier(errno(10061)); got != Unknown {
		t.Errorf("on Linux 10061 is %v, want unknown", got)
	}
}

// Not every system has a name for it.
func TestHostIsDown(t *testing.T) {
	if got := DefaultClassifier(hostDown); got != Unprocessed {
		t.Errorf("%v, want unprocessed", got)
	}
}
