package proxytest

import (
	"net"
	"syscall"
)

// CanDrop reports whether the system can have [Dropped].
const CanDrop = true

// drop has the system discard what comes for c before TCP sees it: a filter that accepts no
// byte. A process needs no privilege for that.
func drop(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		//lint:ignore SA1019 its successor is in golang.org/x/net, which this module does not require
		err = syscall.AttachLsf(int(fd), []syscall.SockFilter{{Code: syscall.BPF_RET | syscall.BPF_K}})
	})
	if err != nil {
		panic("proxytest: " + err.Error())
	}
}
