package forgottendone

import (
	"context"
	"errors"

	"github.com/goretry/retry"
)

func try(context.Context) error { return nil }

var errFatal = errors.New("fatal")

func success(ctx context.Context, p retry.Policy) error {
	a := p.Attempts(ctx)
	defer a.Close()
	for a.Next() {
		err := try(a.Context())
		if err == nil {
			return nil // want `this return leaves an attempt without a.Done, and the run ends as after a panic: call Done first, with nil for a success`
		}
		a.Done(err)
	}
	return a.Err()
}

func goesOn(ctx context.Context, p retry.Policy) error {
	a := p.Attempts(ctx)
	defer a.Close()
	for a.Next() { // want `an attempt of this loop may come to the next Next without a.Done, which panics`
		if err := try(a.Context()); errors.Is(err, errFatal) {
			continue
		} else if err != nil {
			a.Done(err)
		} else {
			a.Done(nil)
		}
	}
	return a.Err()
}

func breaks(ctx context.Context, p retry.Policy) error {
	run := p.Attempts(ctx)
	defer run.Close()
	for run.Next() { // want `this loop may leave an attempt without run.Done, and the run ends as after a panic`
		err := try(run.Context())
		if err == nil {
			break
		}
		run.Judged(retry.Verdict{Err: err, Class: retry.Transient})
	}
	return run.Err()
}

func forgets(ctx context.Context, p retry.Policy) {
	a := p.Attempts(ctx)
	for a.Next() { // want `may come to the next Next without a.Done`
		_ = try(a.Context())
	}
}

func closes(ctx context.Context, p retry.Policy) {
	a := p.Attempts(ctx)
	for a.Next() {
		defer a.Close()
		return // want `this return leaves an attempt without a.Done`
	}
}

func fine(ctx context.Context, p retry.Policy) error {
	a := p.Attempts(ctx)
	defer a.Close()
	for a.Next() {
		a.Done(try(a.Context()))
	}

	b := p.Attempts(ctx)
	for b.Next() {
		err := try(b.Context())
		switch {
		case err == nil:
			b.Done(nil)
			return nil
		case errors.Is(err, errFatal):
			panic("fatal")
		case ctx.Err() != nil:
			b.Close() // on purpose
			return err
		}
		if !b.Judged(p.Judge(err)) {
			break
		}
	}
	return nil
}

type server struct{ run *retry.Attempts }

func (*server) finish(done func(error) bool) { done(nil) }

// Other code may say how the attempt has ended.
func handedOn(ctx context.Context, p retry.Policy, s *server, end func(*retry.Attempts)) {
	a := p.Attempts(ctx)
	for a.Next() {
		end(a)
	}
	b := p.Attempts(ctx)
	s.run = b
	for b.Next() {
		_ = try(b.Context())
	}
	c := p.Attempts(ctx)
	done := c.Done
	for c.Next() {
		done(nil)
	}
	d := p.Attempts(ctx)
	for d.Next() {
		func() { defer d.Done(nil) }()
	}
	e := p.Attempts(ctx)
	for e.Next() {
		s.finish(e.Done)
	}
	for s.run.Next() {
		_ = try(ctx)
	}
}

func drives(a *retry.Attempts) error {
	for a.Next() {
		return nil // the caller says how it has ended
	}
	return a.Err()
}
