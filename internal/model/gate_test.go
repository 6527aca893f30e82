package model_test

import (
	"context"
	"os"
	"time"

	"github.com/goretry/retry"
)

// longTests says that tests may take minutes: RETRY_LONG is 1, as CI sets it.
var longTests = os.Getenv("RETRY_LONG") == "1"

const (
	sec  = time.Second
	hour = time.Hour
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// held is how long a gate has an attempt wait.
var held = map[byte]time.Duration{'w': sec / 2, 'W': 3 * sec, 'a': sec / 2, 'A': 2 * sec}

// gate is a guard that does one letter of its script each time that it is asked, and then
// admits all: it has an attempt wait (w, W), wait and ask again (a, A), admits it (.), or
// refuses it for now (f), for a second (h) or for good (s).
type gate struct {
	script string

	entries int
	exits   []exit
	open    int  // the entry whose pass it has not got back
	wrong   bool // it got back another
}

func (g *gate) Enter(_ context.Context, e retry.Entry) (pass retry.Pass, err error) {
	if e.Earlier.Again {
		g.forget(e.Earlier)
	}
	g.entries++
	letter := byte('.')
	if g.script != "" {
		letter, g.script = g.script[0], g.script[1:]
	}
	switch letter {
	case 'f':
		return pass, errFull
	case 'h':
		return pass, retry.After(errFull, sec)
	case 's':
		return pass, retry.Stop(errFull)
	}
	g.wrong = g.wrong || g.open != 0
	g.open = g.entries
	return retry.Pass{Wait: held[letter], Again: letter == 'a' || letter == 'A', Held: g.entries}, nil
}

func (g *gate) Leave(pass retry.Pass, x retry.Exit) {
	g.exits = append(g.exits, exit{x.Ending, x.Verdict.Class, x.Took, x.Allowed})
	g.forget(pass)
}

func (g *gate) forget(pass retry.Pass) {
	g.wrong = g.wrong || g.open == 0 || pass.Held != g.open
	g.open = 0
}
