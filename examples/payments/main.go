// Payments is a system of services on real servers, with everything that a team would
// use of this library, and counts whether money is lost when parts of it die:
//
//	shop → gateway → two ledgers → PostgreSQL
//	        ↓            ↓
//	      Redis        NATS → notifier → third party
//
// PostgreSQL and Redis must be installed; it starts them, and everything else, each
// service in a process of its own. From the root of the repository:
//
//	go run ./examples/payments
//
// For fifteen seconds, or -for, shops make payments. Each has a key, with which it is
// repeated until the gateway says what became of it; one request in ten hangs up. Then a
// ledger is killed, PostgreSQL is restarted, the other ledger freezes, and the third party
// is away for a while; -trouble names some of these. The program exits with code 1 unless
// each payment that a shop was told of was applied once, every account is the sum of its
// payments, and the third party was notified of each payment, and of no other.
//
//	gateway.go   HTTP with deadlines; a cache that may fail; a client that hangs up
//	client.go    how ledgers are called: retries, hedges, a limit
//	ledger.go    transactions that conflict; an outbox; answers that say when to come back
//	notifier.go  a queue in which a message waits until its webhook is back
//	shop.go      the load and the count
//	servers.go   PostgreSQL, Redis and NATS
//
// While it runs, /debug/retry of the gateway, whose address it prints, shows the retries.
// With -tags failsafe the gateway uses failsafe-go in place of this library.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goretry/retry"
)

// This program starts itself again: in the environment is what each process is to be.
const (
	roleKey   = "PAYMENTS_ROLE"
	configKey = "PAYMENTS_CONFIG"
)

// config is what a process must know.
type config struct {
	Dir                                       string
	Ports                                     []int // of PostgreSQL, Redis and NATS
	Listen, Postgres, Redis, NATS, ThirdParty string
	Ledgers                                   []string
}

func main() {
	if actAsChild() {
		return
	}
	length := flag.Duration("for", 15*time.Second, "how long shops make payments")
	rate := flag.Int("rate", 60, "payments per second")
	troubles := flag.String("trouble", "kill,restart,freeze,away", "what goes wrong, one after the other: kill a ledger, restart PostgreSQL, freeze a ledger, have the third party away")
	flag.Parse()
	if err := run(os.Stdout, *length, max(*rate, 1), strings.Split(*troubles, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

// actAsChild is a child's whole life. It returns false in the parent.
func actAsChild() bool {
	role := os.Getenv(roleKey)
	if role == "" {
		return false
	}
	var c config
	err := json.Unmarshal([]byte(os.Getenv(configKey)), &c)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := retry.SlogHooks(logger(os.Stderr).With("service", role))
	if role != "servers" { // which reads it
		go func() { // a child ends with its parent, whatever ends that
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
			time.AfterFunc(5*time.Second, func() { os.Exit(1) })
		}()
	}
	if err == nil {
		err = map[string]func() error{
			"servers":  func() error { return runServers(c) },
			"ledger":   func() error { return runLedger(ctx, c, log) },
			"gateway":  func() error { return runGateway(ctx, c, log) },
			"notifier": func() error { return runNotifier(ctx, c, log) },
		}[role]()
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintf(os.Stderr, "payments: %s: %v\n", role, err)
		os.Exit(1)
	}
	return true
}

// logger logs what a person must know: at Info it would have a line for each retry.
func logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelError}))
}

// child returns a process that is not started yet.
func child(role string, c config) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleKey+"="+role, configKey+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// service is a process that is started again when it ends, as a supervisor does.
type service struct {
	running chan *exec.Cmd // the process, while nobody kills it
	stop    context.CancelFunc
	ended   chan struct{}
}

func start(role string, c config) *service {
	ctx, stop := context.WithCancel(context.Background())
	s := &service{make(chan *exec.Cmd, 1), stop, make(chan struct{})}
	go func() {
		defer close(s.ended)
		for ctx.Err() == nil {
			s.live(ctx, role, c)
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return s
}

// live runs the process once.
func (s *service) live(ctx context.Context, role string, c config) {
	cmd, err := child(role, c)
	var in io.Closer
	if err == nil {
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
	default: // it was killed
	}
}

// kill ends the process as kill -9 does.
func (s *service) kill() { _ = (<-s.running).Process.Kill() }

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

// run plays the story.
func run(w io.Writer, length time.Duration, rate int, troubles []string) (err error) {
	if _, _, err := installed(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "payments-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ports, err := freePorts(6)
	if err != nil {
		return err
	}
	at := func(port int) string { return fmt.Sprint("127.0.0.1:", port) }
	third := newThirdParty()
	defer third.server.Close()
	c := config{
		Dir: dir, Ports: ports[:3],
		Postgres: "postgres://pay@" + at(ports[0]) + "/postgres", Redis: at(ports[1]), NATS: "nats://" + at(ports[2]),
		Ledgers: []string{at(ports[3]), at(ports[4])}, ThirdParty: third.server.URL,
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	infra, err := startServers(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, infra.stop()) }()
	var ledgers []*service
	for _, address := range c.Ledgers {
		c.Listen = address
		ledgers = append(ledgers, start("ledger", c))
		defer ledgers[len(ledgers)-1].end()
	}
	c.Listen = at(ports[5])
	defer start("gateway", c).end()
	defer start("notifier", c).end()
	s := &shops{url: "http://" + c.Listen, told: map[string]payment{}}
	if err := s.open(ctx); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d payments per second for %v; %s/debug/retry shows the retries\n", rate, length, s.url)

	began := time.Now()
	say := func(what string) { fmt.Fprintf(w, "%6.1fs  %s\n", time.Since(began).Seconds(), what) }
	steps := map[string]func() error{ // each takes up to half of its share of the time
		"kill":    func() error { say("a ledger is killed"); ledgers[0].kill(); return nil },
		"restart": func() error { say("PostgreSQL is restarted"); return infra.restartPostgres() },
		"freeze": func() error {
			say("a ledger freezes")
			return ledgers[1].freeze(length / time.Duration(2*len(troubles)))
		},
		"away": func() error {
			say("the third party is away")
			third.away.Store(true)
			time.Sleep(length / time.Duration(2*len(troubles)))
			third.away.Store(false)
			return nil
		},
	}
	for _, name := range troubles {
		if steps[name] == nil {
			return fmt.Errorf("unknown trouble %q", name)
		}
	}
	trouble := make(chan error, 1)
	go func() {
		var err error
		for i, name := range troubles {
			time.Sleep(time.Until(began.Add(length * time.Duration(4*i+1) / time.Duration(4*len(troubles)))))
			if err = steps[name](); err != nil {
				break
			}
		}
		trouble <- err
	}()
	s.pay(ctx, length, rate)
	if err := errors.Join(<-trouble, ctx.Err()); err != nil {
		return err
	}
	return s.check(ctx, w, c, third)
}
