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
// ledger is killed, PostgreSQL is restarted, and so on: -trouble names what goes wrong. The
// program exits with code 1 unless each payment that was confirmed to a shop was applied once,
// every account is the sum of its payments, and the third party was notified of each
// payment, and of no other.
//
//	gateway.go   HTTP with deadlines; a cache that may fail; a client that hangs up
//	client.go    how ledgers are called: retries, hedges, limits
//	ledger.go    transactions that conflict; an outbox; answers that say when to come back
//	notifier.go  a queue in which a message waits until its webhook is back
//	leave.go     how a service shuts down
//	story.go     the processes, and what goes wrong
//	shop.go      the load and the count
//	servers.go   PostgreSQL, Redis and NATS
//	sent.go      counts what the gateway sends
//
// While it runs, /debug/retry of the gateway, whose address it prints, shows the retries.
// Examples/payments/compare compares this library with failsafe-go, whose client is
// compiled in with -tags failsafe.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/goretry/retry"
)

// This program starts itself again: in the environment is what each process is to be.
const (
	roleKey   = "PAYMENTS_ROLE"
	configKey = "PAYMENTS_CONFIG"
)

// config is what a process must know.
type config struct {
	Dir, Postgres, Redis, NATS, ThirdParty string
	Ledgers                                []string
	Client                                 string        // how the gateway calls ledgers, a key of clients
	Slow                                   time.Duration // what each transaction takes longer
}

// traces carries the trace of a payment from the shop to the third party.
var traces propagation.TraceContext

func main() {
	if actAsChild() {
		return
	}
	var s story
	flag.DurationVar(&s.length, "for", 15*time.Second, "how long shops make payments")
	flag.IntVar(&s.rate, "rate", 60, "payments per second")
	flag.BoolVar(&s.once, "once", false, "shops do not repeat a payment")
	flag.DurationVar(&s.slow, "slow", 0, "what each transaction takes longer; the ledgers have 16 connections to PostgreSQL")
	flag.StringVar(&s.client, "client", "retry", "how the gateway calls ledgers; with -tags failsafe also failsafe and failsafe-own")
	troubles := flag.String("trouble", "kill,restart,freeze,away,rollout", "what goes wrong, one after the other, also as name=duration: "+strings.Join(troubleNames(), ", "))
	figures := flag.Bool("json", false, "print the figures only, as JSON")
	flag.Parse()
	s.troubles = strings.FieldsFunc(*troubles, func(r rune) bool { return r == ',' })
	out := io.Writer(os.Stdout)
	if *figures {
		out = io.Discard
	}
	counted, err := s.play(out)
	if *figures && err == nil {
		err = json.NewEncoder(os.Stdout).Encode(counted)
	}
	if err != nil {
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if role != "servers" { // which reads it
		go func() { // a child ends with its parent, whatever ends that
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
			time.AfterFunc(notice+grace+time.Second, func() { os.Exit(1) })
		}()
	}
	var c config
	err := json.Unmarshal([]byte(os.Getenv(configKey)), &c)
	if err == nil {
		err = live(ctx, role, c)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "payments: %s: %v\n", role, err)
		os.Exit(1)
	}
	return true
}

func live(ctx context.Context, role string, c config) error {
	log := retry.SlogHooks(logger(os.Stderr).With("service", role))
	switch role {
	case "servers":
		return runServers(c)
	case "notifier":
		return runNotifier(ctx, c, log)
	}
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	if role == "gateway" {
		return runGateway(ctx, c, listener, log)
	}
	return runLedger(ctx, c, listener, log)
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
