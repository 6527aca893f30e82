//go:build !linux

package proxytest

import "net"

// CanDrop reports whether the system can have [Dropped].
const CanDrop = false

func drop(*net.TCPConn) { panic("proxytest: this system cannot drop what comes for a connection") }
