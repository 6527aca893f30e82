package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// progress counts what a command has done of what it has to do. Its methods may be called
// at any time.
type progress struct {
	done, all atomic.Int64
}

// left says how much is still to be done, about.
func (p *progress) left(n int) { p.all.Store(p.done.Load() + int64(n)) }

// more says that so much more than that is to be done.
func (p *progress) more(n int) { p.all.Add(int64(n)) }

// step counts one more as done.
func (p *progress) step() { p.done.Add(1) }

// line says how far a command is, in words.
func (p *progress) line(name string, took time.Duration) string {
	if all := p.all.Load(); all > 0 {
		name += fmt.Sprintf(": %d of about %d done", p.done.Load(), all)
	}
	return fmt.Sprintf("%s, %.0f s", name, took.Seconds())
}

// beat is how often that changes, and when it is there first. Tests change it.
var beat = time.Second

// show keeps the line on a terminal until hide is called, which removes it. Where w is
// none, nothing is written.
func (p *progress) show(w io.Writer, name string) (hide func()) {
	if !terminal(w) {
		return func() {}
	}
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		t, start, wide := time.NewTicker(beat), time.Now(), 0
		defer t.Stop()
		for {
			select {
			case <-t.C:
				line := p.line(name, time.Since(start))
				fmt.Fprintf(w, "\r%-*s", wide, line)
				wide = max(wide, len(line))
			case <-over:
				if wide > 0 {
					fmt.Fprintf(w, "\r%*s\r", wide, "")
				}
				return
			}
		}
	}()
	return func() { close(over); <-gone }
}
