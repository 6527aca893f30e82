//go:build !linux || 386 || s390x

package tcpinfo

import "net"

func of(net.Conn) (Info, bool) { return Info{}, false }
