package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/goretry/retry"
)

// installed returns where PostgreSQL's programs and Redis are.
func installed() (postgres, redis string, err error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian has them there
	for _, path := range []string{"initdb", "/usr/local/bin/initdb"} {
		if p, err := exec.LookPath(path); err == nil {
			dirs = append(dirs, filepath.Dir(p))
		}
	}
	if len(dirs) == 0 {
		return "", "", errors.New("this needs PostgreSQL: apt-get install postgresql")
	}
	if redis, err = exec.LookPath("redis-server"); err != nil {
		return "", "", errors.New("this needs Redis: apt-get install redis-server")
	}
	return dirs[len(dirs)-1], redis, nil
}

// runServers runs PostgreSQL, Redis and NATS until its standard input ends, and so until
// its parent does, whatever ends that. A line of input restarts PostgreSQL.
func runServers(c config) error {
	postgres, redisServer, err := installed()
	if err != nil {
		return err
	}
	ctl, err := newPostgres(postgres, filepath.Join(c.Dir, "postgres"), c.Ports[0])
	if err != nil {
		return err
	}
	if err := ctl.do("start"); err != nil {
		return err
	}
	defer ctl.do("stop", "-m", "immediate")

	cache := exec.Command(redisServer, "--port", strconv.Itoa(c.Ports[1]), "--bind", "127.0.0.1", "--save", "", "--dir", c.Dir)
	if err := cache.Start(); err != nil {
		return err
	}
	defer func() { _ = cache.Process.Kill(); _ = cache.Wait() }()

	broker, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: c.Ports[2], JetStream: true, StoreDir: c.Dir, NoSigs: true})
	if err != nil {
		return err
	}
	broker.Start()
	defer broker.Shutdown()
	if !broker.ReadyForConnections(time.Minute) {
		return errors.New("NATS is not ready after a minute")
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := ctl.do("restart", "-m", "fast"); err != nil {
			return err
		}
		fmt.Println("restarted")
	}
	return nil
}

// postgres is a server of Debian's.
type postgres struct {
	bin, dir, options string
	asUser            []string // a command before each other: as root PostgreSQL refuses to run
}

// newPostgres makes the server's folder.
func newPostgres(bin, dir string, port int) (*postgres, error) {
	p := &postgres{bin: bin, dir: dir, options: fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off", port)}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // its user must get in
			return nil, err
		}
		if err := p.run("/bin/chown", "postgres", dir); err != nil {
			return nil, err
		}
		p.asUser = []string{"runuser", "-u", "postgres", "--"}
	}
	return p, p.run(bin+"/initdb", "-D", dir+"/data", "-U", "pay", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

func (p *postgres) do(args ...string) error {
	return p.run(append([]string{p.bin + "/pg_ctl", "-D", p.dir + "/data", "-l", p.dir + "/log", "-o", p.options, "-w"}, args...)...)
}

func (p *postgres) run(args ...string) error {
	args = append(p.asUser[:len(p.asUser):len(p.asUser)], args...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = p.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	return nil
}

// freePorts returns ports that were free a moment ago.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end, or one port might come twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// servers is the process of runServers.
type servers struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startServers(ctx context.Context, c config) (*servers, error) {
	cmd, err := child("servers", c)
	if err != nil {
		return nil, err
	}
	s := &servers{cmd: cmd}
	if s.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := s.hears("ready\n"); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	cache := redis.NewClient(&redis.Options{Addr: c.Redis})
	defer cache.Close()
	return s, retry.Run(ctx, retry.Policy{Name: "redis", MaxElapsed: time.Minute}, func(ctx context.Context) error { return cache.Ping(ctx).Err() })
}

// restartPostgres returns once PostgreSQL is back.
func (s *servers) restartPostgres() error {
	if _, err := fmt.Fprintln(s.in, "restart"); err != nil {
		return err
	}
	return s.hears("restarted\n")
}

func (s *servers) hears(want string) error {
	if line, err := s.out.ReadString('\n'); line != want {
		return fmt.Errorf("the servers say %q, not %q: %w", line, want, err)
	}
	return nil
}

func (s *servers) stop() error {
	return errors.Join(s.in.Close(), s.cmd.Wait())
}

// count is what the database says in the end.
type count struct {
	payments map[string]payment
	sum      int64
	wrong    int // accounts whose balance is not that of their payments
	outbox   int
}

func query(ctx context.Context, url string) (n count, err error) {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return n, err
	}
	defer db.Close(ctx)
	rows, err := db.Query(ctx, `SELECT id, from_acct, to_acct, amount FROM payments`)
	if err != nil {
		return n, err
	}
	n.payments = map[string]payment{}
	var id string
	var p payment
	if _, err := pgx.ForEachRow(rows, []any{&id, &p.From, &p.To, &p.Amount}, func() error { n.payments[id] = p; return nil }); err != nil {
		return n, err
	}
	err = db.QueryRow(ctx, `SELECT (SELECT sum(balance) FROM accounts), (SELECT count(*) FROM outbox), (SELECT count(*) FROM accounts a WHERE balance <>
		$1 - (SELECT coalesce(sum(amount), 0) FROM payments WHERE from_acct = a.id) + (SELECT coalesce(sum(amount), 0) FROM payments WHERE to_acct = a.id))`,
		opening).Scan(&n.sum, &n.outbox, &n.wrong)
	return n, err
}
