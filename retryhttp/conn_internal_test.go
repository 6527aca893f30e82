package retryhttp

import (
	"testing"
	"time"

	"github.com/goretry/retry/internal/tcpinfo"
)

// What is seen of a connection decides what becomes of it. Times are in milliseconds.
func TestJudgeConnection(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name string
		see  sight
		want state
	}{
		{"data has come", sight{known: true, quiet: 1000 * ms, idle: true, Info: tcpinfo.Info{Received: 989 * ms}}, alive},
		{"none has come, the ping is under way", sight{known: true, quiet: 1000 * ms, idle: true, Info: tcpinfo.Info{Received: 990 * ms, RTT: ms}}, unclear},
		{"the ping had time", sight{known: true, quiet: 1000 * ms, idle: true, waited: 13 * ms, Info: tcpinfo.Info{Received: 1000 * ms, RTT: ms}}, dead},
		{"far away", sight{known: true, quiet: 1000 * ms, idle: true, waited: 49 * ms, Info: tcpinfo.Info{Received: 1000 * ms, RTT: 200 * ms}}, unclear},
		{"far away, patience is over", sight{known: true, quiet: 1000 * ms, idle: true, waited: 51 * ms, Info: tcpinfo.Info{Received: 1000 * ms, RTT: 200 * ms}}, dead},
		{"idle since before the attempt", sight{known: true, quiet: 1000 * ms, idle: true, idleFor: 1000 * ms, Info: tcpinfo.Info{Received: 2000 * ms}}, dead},

		{"in use", sight{known: true, quiet: 1000 * ms, Info: tcpinfo.Info{Received: 2000 * ms, Acknowledged: 990 * ms}}, alive},
		{"in use, all acknowledged long ago", sight{known: true, quiet: 1000 * ms, Info: tcpinfo.Info{Received: 9000 * ms, Acknowledged: 9000 * ms}}, alive},
		{"in use, something has just been sent", sight{known: true, quiet: 1000 * ms, Info: tcpinfo.Info{Received: 9000 * ms, Acknowledged: 9000 * ms, Unacked: true}}, alive},
		{"in use, sent again", sight{known: true, quiet: 1000 * ms, Info: tcpinfo.Info{Received: 9000 * ms, Acknowledged: 1011 * ms, Unacked: true, Resent: 1}}, dead},
		{"in use, sent again, acknowledged within a tick", sight{known: true, quiet: 1000 * ms, Info: tcpinfo.Info{Received: 9000 * ms, Acknowledged: 1010 * ms, Unacked: true, Resent: 1}}, alive},
		{"in use, sent again twice", sight{known: true, quiet: 1000 * ms, Info: tcpinfo.Info{Received: 9000 * ms, Acknowledged: 900 * ms, Unacked: true, Resent: 2}}, dead},
		{"in use, sent again twice, but data has come", sight{known: true, quiet: 1000 * ms, Info: tcpinfo.Info{Received: 500 * ms, Acknowledged: 900 * ms, Unacked: true, Resent: 2}}, alive},

		{"has answered before", sight{known: true, quiet: 1000 * ms, idle: true, spared: true, waited: time.Second, Info: tcpinfo.Info{Received: 1000 * ms}}, alive},
		{"has answered before, and is gone", sight{known: true, quiet: 1000 * ms, idle: true, spared: true, Info: tcpinfo.Info{Received: 1000 * ms, Acknowledged: 1000 * ms, Unacked: true, Resent: 2}}, dead},

		{"unknown, idle since before the attempt", sight{quiet: 1000 * ms, idle: true, idleFor: 1000 * ms}, dead},
		{"unknown, used since", sight{quiet: 1000 * ms, idle: true, idleFor: 999 * ms}, alive},
		{"unknown, HTTP/2", sight{quiet: 1000 * ms, idle: true, http2: true}, dead},
		{"unknown, HTTP/2 in use", sight{quiet: 1000 * ms, http2: true}, alive},
		{"unknown, in use, as HTTP/3 always is", sight{quiet: 1000 * ms}, alive},
	} {
		if got := tt.see.judge(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
