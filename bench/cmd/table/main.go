// Command table runs this library beside the others and writes down what it saw:
//
//	go run ./bench/cmd/table
//
// It writes bench/RESULTS.md and bench/BEHAVIOUR.md. That takes some minutes, on a
// machine with nothing else to do. With -behaviour it writes only bench/BEHAVIOUR.md, with -tail only
// bench/TAIL.md, which is not written otherwise; with -short it does all of it in
// seconds, with figures that mean little.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/goretry/retry/bench"
)

func main() {
	bench.WaitIfAsked()
	short := flag.Bool("short", false, "only a few rounds")
	behaviour := flag.Bool("behaviour", false, "only BEHAVIOUR.md")
	tail := flag.Bool("tail", false, "only TAIL.md")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *tail:
		err = tails(ctx, *short)
	case *behaviour:
		err = behave(ctx)
	default:
		if err = measure(ctx, *short); err == nil {
			err = behave(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

const module = "github.com/goretry/retry/bench"

// folder returns where the files are written.
func folder(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// tails measures what hedging does to slow answers, in some minutes.
func tails(ctx context.Context, short bool) error {
	dir, err := folder(ctx)
	if err != nil {
		return err
	}
	rounds, phase := 3, 8*time.Second
	if short {
		rounds, phase = 1, time.Second
	}
	rows, err := bench.Tail(ctx, rounds, phase, func(peer string) { fmt.Fprintln(os.Stderr, peer) })
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "TAIL.md"), []byte(bench.TailMarkdown(rows, rounds, phase)), 0o644)
}

func measure(ctx context.Context, short bool) error {
	dir, err := folder(ctx)
	if err != nil {
		return err
	}
	// Other processes rarely interrupt so short a batch: its median hardly shows them.
	rounds, batch, waits := 201, 500*time.Microsecond, 5
	if short {
		rounds, batch, waits = 2, time.Millisecond, 1
	}
	report := bench.Report{Date: time.Now(), Rounds: rounds}
	for _, items := range [][]bench.Item{bench.Items(), bench.Telemetry(), bench.HTTP(), bench.GRPC()} {
		for _, item := range items {
			fmt.Fprintln(os.Stderr, item.Name)
			report.Items = append(report.Items, bench.Measured{Item: item, Results: item.Measure(rounds, batch)})
		}
	}
	fmt.Fprintln(os.Stderr, "100 000 calls that wait")
	if report.Waiting, err = bench.MeasureWaiting(ctx, waits); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte(report.Markdown()), 0o644)
}

// behave runs the scenarios in a test: only tests have synctest bubbles.
func behave(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "behaviour")
	test := exec.CommandContext(ctx, "go", "test", "-race", "-count=1", "-run", "^TestBehaviour$", module, "-args", "-write")
	test.Stdout, test.Stderr = os.Stderr, os.Stderr
	return test.Run()
}
