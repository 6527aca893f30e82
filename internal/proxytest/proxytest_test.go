package proxytest_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/goretry/retry/internal/proxytest"
	"github.com/goretry/retry/internal/tcpinfo"
)

// start returns a proxy of a server that sends lines back.
func start(t *testing.T) *proxytest.Proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	p, err := proxytest.New(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		l.Close()
	})
	return p
}

// dial returns a connection, and a func that sends a line and reads the next one. It waits for
// that a tenth of a second if silence is expected.
func dial(t *testing.T, p *proxytest.Proxy) (net.Conn, func(line string, want error) (string, error)) {
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := bufio.NewReader(c)
	return c, func(line string, want error) (string, error) {
		if _, err := io.WriteString(c, line+"\n"); err != nil {
			return "", err
		}
		patience := 5 * time.Second
		if want == os.ErrDeadlineExceeded {
			patience = 100 * time.Millisecond
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		return r.ReadString('\n')
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		fault proxytest.Fault
		err   error // of the next exchange
	}{
		{proxytest.None, nil},
		{proxytest.Silent, os.ErrDeadlineExceeded},
		{proxytest.Dropped, os.ErrDeadlineExceeded},
		{proxytest.Frozen, os.ErrDeadlineExceeded},
		{proxytest.Reset, syscall.ECONNRESET},
		{proxytest.HalfClosed, io.EOF},
		{proxytest.Cut, io.EOF},
	} {
		if tt.fault == proxytest.Dropped && !proxytest.CanDrop {
			continue
		}
		p := start(t)
		c, exchange := dial(t, p)
		if _, err := exchange("before", nil); err != nil {
			t.Fatal(err)
		}
		p.Strike(tt.fault)
		if tt.fault == proxytest.Reset {
			_, _ = c.Read(make([]byte, 1)) // it may not have arrived yet
		}
		if _, err := exchange("after", tt.err); !errors.Is(err, tt.err) && !(tt.fault > proxytest.Frozen && broken(err)) {
			t.Errorf("fault %d: error %v, want %v", tt.fault, err, tt.err)
		}
		if _, other := dial(t, p); p.Accepted() > 2 {
			t.Error(p.Accepted(), "connections")
		} else if _, err := other("a later connection", nil); err != nil {
			t.Error(err)
		}
		if info, ok := tcpinfo.Of(c); ok && tt.err == os.ErrDeadlineExceeded && info.Unacked != (tt.fault == proxytest.Dropped) {
			t.Errorf("fault %d: %+v", tt.fault, info)
		}
	}
}

// broken reports whether err may be what becomes of a connection that has ended.
func broken(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

func TestNewConnections(t *testing.T) {
	p := start(t)
	p.StrikeNew(func(n int) proxytest.Fault {
		if n%2 == 0 {
			return proxytest.Silent
		}
		return proxytest.None
	})
	for n, want := range []error{os.ErrDeadlineExceeded, nil, os.ErrDeadlineExceeded} {
		_, exchange := dial(t, p)
		if _, err := exchange("new", want); !errors.Is(err, want) {
			t.Errorf("connection %d: error %v, want %v", n, err, want)
		}
	}
}

func TestThaw(t *testing.T) {
	p := start(t)
	c, exchange := dial(t, p)
	if _, err := exchange("before", nil); err != nil {
		t.Fatal(err)
	}
	p.Strike(proxytest.Frozen)
	if _, err := exchange("frozen", os.ErrDeadlineExceeded); err == nil {
		t.Error("an answer")
	}
	p.Strike(proxytest.None)
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "frozen\n" {
		t.Error(line, err)
	}
}

func TestLook(t *testing.T) {
	p := start(t)
	_, exchange := dial(t, p)
	p.Look(nil, func([]byte) proxytest.Piece {
		return proxytest.Piece{On: []byte("other\n"), Fault: proxytest.HalfClosed}
	})
	if line, err := exchange("one", nil); line != "other\n" || err != nil {
		t.Error(line, err)
	}
	if _, err := exchange("two", io.EOF); err != io.EOF {
		t.Error(err)
	}
}
