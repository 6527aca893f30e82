package retryredis_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a Redis of the test's own, on a port of the loopback interface.
type server struct {
	t    testing.TB
	port string
	args []string
	cmd  *exec.Cmd
	out  bytes.Buffer
}

// start starts a Redis that ends with the test.
func start(t testing.TB, args ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is not installed, and CI must test it: apt-get install redis-server")
		}
		t.Skip("redis-server is not installed: apt-get install redis-server")
	}
	return started(t, append([]string{"--save", "", "--dir", t.TempDir(), "--bind", "127.0.0.1"}, args...))
}

func started(t testing.TB, args []string) *server {
	t.Helper()
	s := &server{t: t, args: args}
	t.Cleanup(s.kill)
	for range 10 { // someone else may take the port that was free a moment ago
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		_ = l.Close()
		if s.run() {
			return s
		}
	}
	t.Fatalf("redis-server does not start:\n%s", &s.out)
	return nil
}

// run starts the server, for the first time or again, and reports whether it answers.
func (s *server) run() bool {
	s.t.Helper()
	s.out.Reset()
	s.cmd = exec.Command("redis-server", append(slices.Clone(s.args), "--port", s.port)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr()})
	defer client.Close()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		// The port may be another's: this one has no data.
		if info, err := client.Info(s.t.Context(), "server").Result(); err == nil {
			if bytes.Contains([]byte(info), []byte("process_id:"+strconv.Itoa(s.cmd.Process.Pid)+"\r\n")) {
				return true
			}
			break
		}
		if s.cmd.Process.Signal(syscall.Signal(0)) != nil {
			break
		}
	}
	s.kill()
	return false
}

func (s *server) addr() string { return "127.0.0.1:" + s.port }

// kill ends the server, which keeps nothing.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// halt lets the server answer nothing, as one that is overloaded, until the returned
// function is called.
func (s *server) halt() (goOn func()) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	return func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
}
