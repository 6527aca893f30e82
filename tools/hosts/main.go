// Command hosts runs the tests of other projects with this library in them:
//
//	go run ./tools/hosts               # all of them: half an hour
//	go run ./tools/hosts -only slack -run TestPostMessage
//
// Of a project that makes HTTP requests each http.Client gets a retryhttp.Transport, by an
// overlay of the go command. In a copy of grpc-go each ClientConn gets a retrygrpc.Client. The
// tests run without the library, with a RoundTripper or interceptors that only hand on, and
// with each of the set-ups that hook has. The exit status is 1 if one passes without alone: twice,
// since some are about time. Those that count attempts, or the like, are listed with the reason,
// and the status is 1 if a reason is needed no more.
//
// The modules come through the Go proxy, in the versions of this program's list. What needs
// servers of others, or lies in a nested module, is not there.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/tools/internal/hosted"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("hosts: ")
	only := flag.String("only", "", "run the projects whose path has this in it")
	run := flag.String("run", ".", "which of their tests, as go test has it; then it is not checked whether a reason is needed")
	limit := flag.Duration("limit", 40*time.Minute, "how long all may take")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	var failed []error
	for _, h := range projects {
		if !strings.Contains(h.path, *only) {
			continue
		}
		if err := compare(ctx, h, *run); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", h.path, err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		log.Fatal(err)
	}
}

// compare runs the tests of a project without the library and with it.
func compare(ctx context.Context, h project, run string) error {
	dir, err := os.MkdirTemp("", "hosts")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t, err := prepare(h, dir)
	if err != nil {
		return err
	}
	begun := time.Now()
	without, _, err := t.test(ctx, "plain", run, h.packages)
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n  without  %v, %.0f s\n", h.path, h.version, without, time.Since(begun).Seconds())
	needed := map[string]bool{}
	var failed []error
	for _, setup := range h.setups() {
		begun := time.Now()
		with, counts, err := t.test(ctx, setup, run, h.packages)
		if err != nil {
			return err
		}
		fmt.Printf("  %-8s %v; %d attempts, %d of them retries, %.0f s\n", setup, with, counts.attempts, counts.retries, time.Since(begun).Seconds())
		if counts.attempts == 0 {
			return fmt.Errorf("%s: nothing went through the library", setup)
		}
		worse := with.WorseThan(without)
		for range 2 {
			if worse = slices.DeleteFunc(worse, func(n hosted.Name) bool { return h.reason(setup, n) != "" && note(needed, h.key(setup, n)) }); len(worse) == 0 {
				break
			}
			again, _, err := t.test(ctx, setup, hosted.Pattern(worse), packagesOf(worse))
			if err != nil {
				return err
			}
			for _, name := range with.Repeated(again) {
				fmt.Println("    passed when repeated:", name)
			}
			worse = with.WorseThan(without)
		}
		for _, name := range worse {
			text := with.Texts[name]
			failed = append(failed, fmt.Errorf("%s: passes only without the library: %v\n%s", setup, name, text[max(0, len(text)-2000):]))
		}
	}
	if ctx.Err() != nil {
		failed = append(failed, fmt.Errorf("not done within the time: %w", ctx.Err()))
	} else if run == "." {
		for key, reason := range h.unlike {
			if !needed[key] {
				failed = append(failed, fmt.Errorf("%s passes with the library: delete it from the list, where it is because %s", key, reason))
			}
		}
	}
	return errors.Join(failed...)
}

func note(needed map[string]bool, key string) bool {
	needed[key] = true
	return true
}

// packagesOf returns the packages of tests.
func packagesOf(names []hosted.Name) (paths []string) {
	for _, name := range names {
		paths = append(paths, name.Package)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
