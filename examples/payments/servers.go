package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
// its parent does, whatever ends that. A line of input is trouble for PostgreSQL. Two of
// them listen in the folder, and NATS chooses its port, so nobody else has it.
func runServers(c config) error {
	bin, redisServer, err := installed()
	if err != nil {
		return err
	}
	pg, err := newPostgres(bin, c.Dir+"/postgres")
	if err != nil {
		return err
	}
	if err := pg.do("start"); err != nil {
		return err
	}
	defer pg.do("stop", "-m", "immediate")

	cache := exec.Command(redisServer, "--port", "0", "--unixsocket", c.Redis, "--save", "", "--dir", c.Dir)
	if err := cache.Start(); err != nil {
		return err
	}
	defer func() { _ = cache.Process.Kill(); _ = cache.Wait() }()

	broker, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: c.Dir, NoSigs: true})
	if err != nil {
		return err
	}
	broker.Start()
	defer broker.Shutdown()
	if !broker.ReadyForConnections(time.Minute) {
		return errors.New("NATS is not ready after a minute")
	}
	fmt.Println(broker.ClientURL())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var what string
		var ms time.Duration
		if _, err := fmt.Sscan(lines.Text(), &what, &ms); err != nil {
			return err
		}
		if err := pg.trouble(what, ms*time.Millisecond); err != nil {
			return err
		}
		fmt.Println(what)
	}
	return nil
}

// postgres is a server of Debian's.
type postgres struct {
	bin, dir string
	asUser   []string // a command before each other: as root PostgreSQL refuses to run
}

// newPostgres makes the server's folder.
func newPostgres(bin, dir string) (*postgres, error) {
	p := &postgres{bin: bin, dir: dir}
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
	options := "-c listen_addresses= -c unix_socket_directories=" + p.dir + " -c fsync=off"
	return p.run(append([]string{p.bin + "/pg_ctl", "-D", p.dir + "/data", "-l", p.dir + "/log", "-o", options, "-w"}, args...)...)
}

// trouble returns once PostgreSQL is back.
func (p *postgres) trouble(what string, d time.Duration) error {
	switch what {
	case "restart":
		return p.do("restart", "-m", "fast")
	case "outage":
		if err := p.do("stop", "-m", "fast"); err != nil {
			return err
		}
		time.Sleep(d)
		return p.do("start")
	default: // a stall: no process of it runs, and all connections stay
		pid, err := os.ReadFile(p.dir + "/data/postmaster.pid")
		if err != nil {
			return err
		}
		first, _, _ := strings.Cut(string(pid), "\n")
		if err := errors.Join(p.run("kill", "-STOP", first), p.run("pkill", "-STOP", "-P", first)); err != nil {
			return err
		}
		time.Sleep(d)
		return errors.Join(p.run("pkill", "-CONT", "-P", first), p.run("kill", "-CONT", first))
	}
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

// servers is the process of runServers.
type servers struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startServers also sets where they are.
func startServers(ctx context.Context, c *config) (*servers, error) {
	c.Redis = c.Dir + "/redis"
	c.Postgres = "host=" + c.Dir + "/postgres user=pay dbname=postgres"
	cmd, err := child("servers", *c)
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
	url, err := s.out.ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the servers do not start: %w", err), s.stop())
	}
	c.NATS = strings.TrimSpace(url)
	cache := redis.NewClient(&redis.Options{Network: "unix", Addr: c.Redis})
	defer cache.Close()
	return s, retry.Run(ctx, retry.Policy{Name: "redis", MaxElapsed: time.Minute}, func(ctx context.Context) error { return cache.Ping(ctx).Err() })
}

// postgres makes trouble, and returns once PostgreSQL is back.
func (s *servers) postgres(what string, d time.Duration) error {
	if _, err := fmt.Fprintln(s.in, what, d.Milliseconds()); err != nil {
		return err
	}
	if line, err := s.out.ReadString('\n'); line != what+"\n" {
		return fmt.Errorf("the servers say %q, not %q: %w", line, what, err)
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
