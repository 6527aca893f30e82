package retrygrpc

import (
	"math"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
)

// FuzzPushback: any trailer is a wait, a refusal or nothing, and never a wait that is
// shorter than asked for.
func FuzzPushback(f *testing.F) {
	for _, s := range []string{"0", "1", "-1", "xxx", "", "9223372036854775807", "9223372036854775808", "9223372036855", "+5", " 5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		e := evidence{trailer: metadata.MD{"grpc-retry-pushback-ms": {value}}}
		wait, ok, refused := e.pushback()
		ms, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil || ms < 0:
			if ok || !refused || wait != 0 {
				t.Errorf("%q: %v, %v, %v, want a refusal", value, wait, ok, refused)
			}
		case ms <= math.MaxInt64/int64(time.Millisecond):
			if !ok || refused || wait.Milliseconds() != ms {
				t.Errorf("%q: %v, %v, %v", value, wait, ok, refused)
			}
		case !ok || refused || wait != math.MaxInt64:
			t.Errorf("%q: %v, %v, %v, want the longest wait", value, wait, ok, refused)
		}
		e.trailer["grpc-retry-pushback-ms"] = []string{value, value}
		if _, ok, refused := e.pushback(); ok || !refused {
			t.Errorf("%q twice is not refused", value)
		}
	})
}
