//go:build linux && !386 && !s390x

package tcpinfo

import (
	"net"
	"syscall"
	"time"
	"unsafe"
)

// info is the beginning of struct tcp_info of linux/tcp.h, which is the same on all
// architectures and only grows at its end.
type info struct {
	state, caState, retransmits, probes, backoff, options, scale, limited uint8

	rto, ato, sndMSS, rcvMSS, unacked, sacked, lost, retrans, fackets        uint32
	lastDataSent, lastAckSent, lastDataRecv, lastAckRecv                     uint32 // milliseconds ago
	pmtu, rcvSSThresh, rtt, rttVar, sndSSThresh, sndCwnd, advMSS, reordering uint32 // rtt in microseconds
}

// of makes the system call getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &size). Package syscall
// has no func for it, so this one needs unsafe: for the addresses of two local variables,
// which the system writes to before the call returns, at most size bytes.
//
// On 386 and s390x Linux has another system call. An emulation of Linux that fills in nothing
// counts as one that does not know.
func of(c net.Conn) (Info, bool) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return Info{}, false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return Info{}, false
	}
	var i info
	err = raw.Control(func(fd uintptr) {
		size := uint32(unsafe.Sizeof(i))
		_, _, e := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.IPPROTO_TCP, syscall.TCP_INFO,
			uintptr(unsafe.Pointer(&i)), uintptr(unsafe.Pointer(&size)), 0)
		ok = e == 0 && size == uint32(unsafe.Sizeof(i))
	})
	if err != nil || !ok || i.rtt == 0 {
		return Info{}, false
	}
	return Info{
		Received:     time.Duration(i.lastDataRecv) * time.Millisecond,
		Acknowledged: time.Duration(i.lastAckRecv) * time.Millisecond,
		RTT:          time.Duration(i.rtt) * time.Microsecond,
		Unacked:      i.unacked > 0,
		Resent:       int(i.retransmits),
	}, true
}
