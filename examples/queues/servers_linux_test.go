package queues_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// startRedis starts a Redis that ends with the test, and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	port := freePort(t)
	start(t, "redis-server", "redis-server", nil, "--save", "", "--dir", t.TempDir(), "--bind", "127.0.0.1", "--port", port)
	return answers(t, port)
}

// startRabbit starts a RabbitMQ that ends with the test, and returns its URL.
func startRabbit(t *testing.T) string {
	t.Helper()
	dir, port, epmd := t.TempDir(), freePort(t), freePort(t)
	plugins := filepath.Join(dir, "plugins")
	if err := os.WriteFile(plugins, []byte("[]."), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"HOME=" + dir, "ERL_EPMD_PORT=" + epmd, "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_NODENAME=test@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT=" + port, "RABBITMQ_DIST_PORT=" + freePort(t), "RABBITMQ_MNESIA_BASE=" + dir, "RABBITMQ_LOG_BASE=" + dir,
		"RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins, "RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, "none"),
	}
	const server = "/usr/lib/rabbitmq/bin/rabbitmq-server" // the one of the path wants to be root
	start(t, "epmd", "rabbitmq-server", env, "-port", epmd, "-address", "127.0.0.1")
	start(t, server, "rabbitmq-server", env)
	return "amqp://guest:guest@" + answers(t, port)
}

// start starts a program of a package of Debian, which ends with the test, and what it has started.
func start(t *testing.T, program, pkg string, env []string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed, and CI must test it: apt-get install %s", program, pkg)
		}
		t.Skipf("%s is not installed: apt-get install %s", program, pkg)
	}
	cmd := exec.Command(program, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &out, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said\n%s", program, &out)
		}
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// answers waits until somebody listens on a port, and returns the address.
func answers(t *testing.T, port string) string {
	t.Helper()
	addr := net.JoinHostPort("127.0.0.1", port)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return addr
		}
	}
	t.Fatalf("nobody listens on %s", addr)
	return ""
}
