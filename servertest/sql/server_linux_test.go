package sql_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// server is a database server of Debian's that runs for all tests of the binary.
type server struct {
	name, pkg string
	user      string // who runs it: both refuse to run as root
	find      []string
	install   func(bin, dir string) []string
	serve     func(bin, dir, port string) []string
	quit      syscall.Signal // ends it at once, with all its processes
	dsn       func(addr string) (driver, source string)

	once  sync.Once
	addr  string // where it listens
	err   error
	found bool
}

var postgres = &server{
	name: "PostgreSQL", pkg: "postgresql", user: "postgres",
	find: []string{"/usr/lib/postgresql/*/bin/postgres", "/usr/local/bin/postgres", "/usr/bin/postgres"},
	install: func(bin, dir string) []string {
		return []string{filepath.Join(filepath.Dir(bin), "initdb"), "-D", dir + "/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"}
	},
	serve: func(bin, dir, port string) []string {
		return []string{bin, "-D", dir + "/data", "-p", port, "-h", "127.0.0.1", "-k", dir, "-c", "fsync=off", "-c", "max_connections=60"}
	},
	quit: syscall.SIGQUIT,
	dsn: func(addr string) (string, string) {
		return "pgx", "postgres://postgres@" + addr + "/postgres?sslmode=disable"
	},
}

// standby is a PostgreSQL that stays in recovery.
var standby = &server{
	name: "a standby", pkg: postgres.pkg, user: postgres.user, find: postgres.find,
	install: func(bin, dir string) []string {
		return []string{"sh", "-c", `"$@" && touch data/standby.signal`, "sh", filepath.Join(filepath.Dir(bin), "initdb"), "-D", dir + "/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"}
	},
	serve: func(bin, dir, port string) []string {
		return append(postgres.serve(bin, dir, port), "-c", "max_connections=100") // as initdb has it: a standby may not have fewer
	},
	quit: postgres.quit, dsn: postgres.dsn,
}

var mariadb = &server{
	name: "MariaDB", pkg: "mariadb-server", user: "mysql",
	find: []string{"/usr/sbin/mariadbd", "/usr/bin/mariadbd"},
	install: func(_, dir string) []string {
		return []string{"mariadb-install-db", "--no-defaults", "--datadir=" + dir + "/data", "--auth-root-authentication-method=normal", "--skip-name-resolve", "--innodb-flush-method=nosync"}
	},
	serve: func(bin, dir, port string) []string {
		return []string{bin, "--no-defaults", "--datadir=" + dir + "/data", "--socket=" + dir + "/socket", "--port=" + port, "--bind-address=127.0.0.1",
			"--skip-name-resolve", "--innodb-flush-method=nosync", "--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0"}
	},
	quit: syscall.SIGKILL,
	dsn:  func(addr string) (string, string) { return "mysql", "root@tcp(" + addr + ")/test" },
}

// start returns the server's address, and starts it for the first test that asks.
func (s *server) start(t *testing.T) string {
	t.Helper()
	s.once.Do(s.launch)
	switch {
	case s.found && s.err != nil:
		t.Fatalf("%s does not start: %v", s.name, s.err)
	case !s.found && os.Getenv("CI") == "true":
		t.Fatalf("%s is not installed, and CI must test it: apt-get install %s", s.name, s.pkg)
	case !s.found:
		t.Skipf("%s is not installed: apt-get install %s", s.name, s.pkg)
	}
	return s.addr
}

func (s *server) launch() {
	var bin string
	for _, pattern := range s.find {
		if matches, _ := filepath.Glob(pattern); len(matches) > 0 {
			bin = matches[len(matches)-1] // of several versions the newest
			break
		}
	}
	if s.found = bin != ""; !s.found {
		return
	}
	dir, err := os.MkdirTemp("", "servertest-")
	if err != nil {
		s.err = err
		return
	}
	atExit = append(atExit, func() { os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Pdeathsig: s.quit} // should this process not get to atExit
	if os.Getuid() == 0 {
		if attr.Credential, s.err = credential(s.user); s.err == nil {
			s.err = os.Chown(dir, int(attr.Credential.Uid), int(attr.Credential.Gid))
		}
		if s.err != nil {
			return
		}
	}
	command := func(args []string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(args[0], args[1:]...)
		var out bytes.Buffer
		cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = dir, attr, &out, &out
		return cmd, &out
	}
	install, out := command(s.install(bin, dir))
	if err = spawn(install); err == nil {
		err = install.Wait()
	}
	if err != nil {
		s.err = fmt.Errorf("%v: %w\n%s", install.Args, err, out)
		return
	}
	// Someone else may take the port that was free a moment ago.
	_, s.err = retry.Do(context.Background(), retry.Policy{Name: "start " + s.name}, func(ctx context.Context) (string, error) {
		port, err := freePort()
		if err != nil {
			return "", err
		}
		cmd, out := command(s.serve(bin, dir, port))
		if err := spawn(cmd); err != nil {
			return "", retry.Stop(err)
		}
		exited := make(chan struct{})
		go func() { cmd.Wait(); close(exited) }()
		stop := func() { cmd.Process.Signal(s.quit); <-exited }
		s.addr = "127.0.0.1:" + port
		if err := s.await(ctx, exited); err != nil {
			stop()
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		atExit = append(atExit, stop)
		return s.addr, nil
	})
}

// await returns once the server answers.
func (s *server) await(ctx context.Context, exited chan struct{}) error {
	driver, source := s.dsn(s.addr)
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close()
	return retry.Run(ctx, retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Constant(20 * time.Millisecond)}, func(ctx context.Context) error {
		select {
		case <-exited:
			return retry.Stop(fmt.Errorf("%s has ended", s.name))
		default:
			return db.PingContext(ctx)
		}
	})
}

// spawn starts a process that gets its Pdeathsig when this one ends, even one that
// is killed: that is sent when the thread ends that made the process.
func spawn(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		select {}
	}()
	return <-started
}

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// atExit is run backwards after all tests.
var atExit []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range slices.Backward(atExit) {
		f()
	}
	os.Exit(code)
}
