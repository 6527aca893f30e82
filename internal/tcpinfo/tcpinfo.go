// Package tcpinfo reads what the operating system knows of a TCP connection.
package tcpinfo

import (
	"net"
	"time"
)

// Info is what the system knows of a connection. Its clock ticks every few milliseconds.
type Info struct {
	Received     time.Duration // since data came from the peer
	Acknowledged time.Duration // since the peer's system acknowledged anything
	RTT          time.Duration // smoothed
	Unacked      bool          // something was sent that the peer's system has not acknowledged
	Resent       int           // how often the system has sent that again after a timeout
}

// Of returns the Info of c, or false if c is no TCP connection or the system does not tell.
// A connection that hides its file descriptor, by embedding a net.Conn, is looked through if
// it has a method NetConn, as *tls.Conn has.
func Of(c net.Conn) (Info, bool) { return of(Bottom(c)) }

// Bottom returns the connection below TLS and the like.
func Bottom(c net.Conn) net.Conn {
	for {
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		below := over.NetConn()
		if below == nil {
			return c
		}
		c = below
	}
}
