package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/goretry/retry"
)

// service is a process that is started again when it ends, as a supervisor does.
type service struct {
	running chan *exec.Cmd // the process, while nobody kills it
	stop    context.CancelFunc
	ended   chan struct{}
}

// start starts a service. What listens gets the listener, which stays open here: nobody
// takes its port, and callers wait while the service is started again.
func start(role string, c config, listener net.Listener) (*service, error) {
	var files []*os.File
	if listener != nil {
		file, err := listener.(*net.TCPListener).File()
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &service{make(chan *exec.Cmd, 1), stop, make(chan struct{})}
	go func() {
		defer close(s.ended)
		for ctx.Err() == nil {
			s.live(ctx, role, c, files)
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return s, nil
}

// live runs the process once.
func (s *service) live(ctx context.Context, role string, c config, files []*os.File) {
	cmd, err := child(role, c)
	var in io.Closer
	if err == nil {
		cmd.ExtraFiles = files
		in, err = cmd.StdinPipe() // open as long as this process lives
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "payments: %s does not start: %v\n", role, err)
		return
	}
	s.running <- cmd
	defer context.AfterFunc(ctx, func() { _ = in.Close() })()
	_ = cmd.Wait()
	select {
	case <-s.running:
	default: // it was told to end
	}
}

// signal ends the process: SIGKILL at once, SIGTERM once nothing is underway.
func (s *service) signal(what os.Signal) { _ = (<-s.running).Process.Signal(what) }

// freeze stops the process for a while: its connections stay, and nobody answers.
func (s *service) freeze(d time.Duration) error {
	cmd := <-s.running
	defer func() { s.running <- cmd }()
	pid := strconv.Itoa(cmd.Process.Pid)
	if err := exec.Command("kill", "-STOP", pid).Run(); err != nil {
		return err
	}
	time.Sleep(d)
	return exec.Command("kill", "-CONT", pid).Run()
}

// end ends the service for good.
func (s *service) end() {
	s.stop()
	<-s.ended
}

// stage is what troubles act upon.
type stage struct {
	servers           *servers
	gateway, notifier *service
	ledgers           []*service
	health            []healthpb.HealthClient // of the ledgers
	third             *thirdParty
	shops             *shops
	closers           []func()
}

// trouble is something that goes wrong, for d if it lasts.
type trouble struct {
	text string
	make func(s *stage, d time.Duration) error
}

var troubles = map[string]trouble{
	"kill":    {"a ledger is killed", func(s *stage, _ time.Duration) error { s.ledgers[0].signal(os.Kill); return nil }},
	"freeze":  {"a ledger freezes", func(s *stage, d time.Duration) error { return s.ledgers[1].freeze(d) }},
	"restart": {"PostgreSQL is restarted", func(s *stage, _ time.Duration) error { return s.servers.postgres("restart", 0) }},
	"outage":  {"PostgreSQL is away", func(s *stage, d time.Duration) error { return s.servers.postgres("outage", d) }},
	"stall":   {"PostgreSQL freezes", func(s *stage, d time.Duration) error { return s.servers.postgres("stall", d) }},
	"away": {"the third party is away", func(s *stage, d time.Duration) error {
		s.third.away.Store(true)
		time.Sleep(d)
		s.third.away.Store(false)
		return nil
	}},
	"rollout": {"all services get SIGTERM, one after the other", (*stage).rollOut},
}

func troubleNames() []string { return slices.Sorted(maps.Keys(troubles)) }

// rollOut ends each service as a rollout does: the next once the last is ready again.
func (s *stage) rollOut(time.Duration) error {
	wait := retry.Policy{MaxAttempts: retry.Unlimited, MaxElapsed: 30 * time.Second, AttemptTimeout: 5 * time.Second, Backoff: retry.Constant(50 * time.Millisecond)}
	for i, ledger := range s.ledgers {
		ledger.signal(syscall.SIGTERM)
		ledger.running <- <-ledger.running // it runs again
		if err := retry.Run(context.Background(), wait, func(ctx context.Context) error {
			reply, err := s.health[i].Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
			if err == nil && reply.Status != healthpb.HealthCheckResponse_SERVING {
				err = errors.New(reply.Status.String())
			}
			return err
		}); err != nil {
			return err
		}
	}
	s.gateway.signal(syscall.SIGTERM)
	s.gateway.running <- <-s.gateway.running
	if err := retry.Run(context.Background(), wait, s.shops.ready); err != nil {
		return err
	}
	s.notifier.signal(syscall.SIGTERM)
	return nil
}

// story is what happens.
type story struct {
	length   time.Duration
	rate     int
	troubles []string
	once     bool
	slow     time.Duration
	client   string
}

// play returns what was counted, and an error if the books are wrong.
func (s story) play(w io.Writer) (_ []figure, err error) {
	lasts, err := s.check()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "payments-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	before := loadAverage()
	on := &stage{third: newThirdParty()}
	defer on.third.server.Close()
	c := config{Dir: dir, ThirdParty: on.third.server.URL, Client: s.client, Slow: s.slow}
	if on.servers, err = startServers(ctx, &c); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, on.servers.stop()) }()
	defer on.end()
	if err := on.start(c, s.once); err != nil {
		return nil, err
	}
	if err := on.shops.open(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "%d payments per second for %v; %s/debug/retry shows the retries\n", s.rate, s.length, on.shops.url)

	began := time.Now()
	var troubled time.Duration
	failed := make(chan error, 1)
	go func() {
		var err error
		for i, name := range s.troubles {
			time.Sleep(time.Until(began.Add(s.length * time.Duration(4*i+1) / time.Duration(4*len(s.troubles)))))
			fmt.Fprintf(w, "%6.1fs  %s\n", time.Since(began).Seconds(), troubles[name].text)
			since := time.Now()
			if err = troubles[name].make(on, lasts[i]); err != nil {
				break
			}
			troubled += time.Since(since)
		}
		failed <- err
	}()
	on.shops.pay(ctx, s.length, s.rate)
	if err := errors.Join(<-failed, ctx.Err()); err != nil {
		return nil, err
	}
	figures, err := on.shops.check(ctx, c, on.third)
	figures = append(figures, figure{"seconds of trouble", math.Round(troubled.Seconds()*10) / 10},
		figure{"load average before", before}, figure{"load average after", loadAverage()})
	fmt.Fprintln(w)
	for _, f := range figures {
		fmt.Fprintf(w, "%12s  %s\n", strconv.FormatFloat(f.Value, 'f', -1, 64), f.Name)
	}
	return figures, err
}

// check returns how long each trouble lasts: by default half of its share of the time.
func (s story) check() (lasts []time.Duration, err error) {
	if _, _, err := installed(); err != nil {
		return nil, err
	}
	if clients[s.client] == nil {
		return nil, fmt.Errorf("unknown client %q", s.client)
	}
	for i, t := range s.troubles {
		name, said, ok := strings.Cut(t, "=")
		d := s.length / time.Duration(2*len(s.troubles))
		if ok {
			if d, err = time.ParseDuration(said); err != nil {
				return nil, err
			}
		}
		if troubles[name].make == nil {
			return nil, fmt.Errorf("unknown trouble %q", name)
		}
		s.troubles[i], lasts = name, append(lasts, d)
	}
	return lasts, nil
}

// start starts the services and what they need beside the servers.
func (s *stage) start(c config, once bool) error {
	var listeners [3]net.Listener // of two ledgers and the gateway
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		listeners[i] = l
		s.closers = append(s.closers, func() { l.Close() })
	}
	for _, l := range listeners[:2] {
		address := l.Addr().String()
		c.Ledgers = append(c.Ledgers, address)
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() { conn.Close() })
		s.health = append(s.health, healthpb.NewHealthClient(conn))
	}
	s.shops = newShops("http://"+listeners[2].Addr().String(), once)
	begin := func(role string, l net.Listener) (*service, error) {
		p, err := start(role, c, l)
		if err == nil {
			s.closers = append(s.closers, p.end)
		}
		return p, err
	}
	for _, l := range listeners[:2] {
		ledger, err := begin("ledger", l)
		if err != nil {
			return err
		}
		s.ledgers = append(s.ledgers, ledger)
	}
	var err, failed error
	s.gateway, err = begin("gateway", listeners[2])
	s.notifier, failed = begin("notifier", nil)
	return errors.Join(err, failed)
}

// end ends all that start has started, the last first.
func (s *stage) end() {
	for _, end := range slices.Backward(s.closers) {
		end()
	}
}

// loadAverage is that of the last minute, or zero where the system does not tell.
func loadAverage() (n float64) {
	text, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(text), &n)
	return n
}
