package retry_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// tally makes errors whose methods count their calls.
type tally struct{ calls int }

type (
	// unwraps wraps an error.
	unwraps struct {
		*tally
		err error
	}
	// passes wraps an error, and its methods As and Is search it.
	passes struct {
		*tally
		err error
	}
	// passesAsIs is passes, as a pointer and with a method for timeouts.
	passesAsIs struct{ passes }
	// joins is passes for several errors.
	joins struct {
		*tally
		errs []error
	}
	// searches and matches are passes with one of the two methods.
	searches struct {
		*tally
		err error
	}
	matches struct {
		*tally
		err error
	}
	// alone is passes with a method Unwrap that returns a list of one.
	alone struct{ passes }
	// conceals has methods As and Is only.
	conceals struct {
		*tally
		errs []error
	}
	// skips unwraps an error, and shows the one below that.
	skips struct {
		*tally
		err, below error
	}
	// rest is go-multierror's chain, whose methods show the first error and hide the others.
	rest struct {
		*tally
		errs []error
	}
	// again makes new errors each time that it is asked, and shows what it unwraps.
	again struct {
		*tally
		levels int
	}
	// ownIs wraps an error and claims to be another one.
	ownIs struct {
		*tally
		err, is error
	}
	// shows has a method As for those who ask for any error, and a method Is that searches it.
	shows struct {
		*tally
		err error
	}
	// knows has a method As for single types: it shows no error to those who ask for any.
	knows struct {
		*tally
		err error
	}
)

func (unwraps) Error() string    { return "unwraps" }
func (e *unwraps) Unwrap() error { e.calls++; return e.err }

func (passes) Error() string          { return "passes" }
func (e passes) Unwrap() error        { e.calls++; return e.err }
func (e passes) As(target any) bool   { e.calls++; return errors.As(e.err, target) }
func (e passes) Is(target error) bool { e.calls++; return errors.Is(e.err, target) }

func (e *passesAsIs) Timeout() bool { e.calls++; return false }

func (searches) Error() string        { return "searches" }
func (e searches) Unwrap() error      { e.calls++; return e.err }
func (e searches) As(target any) bool { e.calls++; return errors.As(e.err, target) }

func (matches) Error() string          { return "matches" }
func (e matches) Unwrap() error        { e.calls++; return e.err }
func (e matches) Is(target error) bool { e.calls++; return errors.Is(e.err, target) }

func (e alone) Unwrap() []error { e.calls++; return []error{e.err} }

func (joins) Error() string          { return "joins" }
func (e joins) Unwrap() []error      { e.calls++; return e.errs }
func (e joins) As(target any) bool   { e.calls++; return errors.As(errors.Join(e.errs...), target) }
func (e joins) Is(target error) bool { e.calls++; return errors.Is(errors.Join(e.errs...), target) }

func (conceals) Error() string { return "conceals" }
func (e conceals) As(target any) bool {
	e.calls++
	return slices.ContainsFunc(e.errs, func(err error) bool { return errors.As(err, target) })
}
func (e conceals) Is(target error) bool { e.calls++; return aggregate(e.errs).Is(target) }

func (*skips) Error() string          { return "skips" }
func (e *skips) Unwrap() error        { e.calls++; return e.err }
func (e *skips) As(target any) bool   { e.calls++; return errors.As(e.below, target) }
func (e *skips) Is(target error) bool { e.calls++; return errors.Is(e.below, target) }

func (rest) Error() string          { return "rest" }
func (e rest) As(target any) bool   { e.calls++; return errors.As(e.errs[0], target) }
func (e rest) Is(target error) bool { e.calls++; return errors.Is(e.errs[0], target) }
func (e rest) Unwrap() error {
	if e.calls++; len(e.errs) == 1 {
		return nil
	}
	return rest{e.tally, e.errs[1:]}
}

func (again) Error() string        { return "again" }
func (e again) As(target any) bool { e.calls++; return errors.As(e.Unwrap(), target) }
func (e again) Unwrap() error {
	if e.calls++; e.levels == 0 {
		return errDown
	}
	return again{e.tally, e.levels - 1}
}

func (*ownIs) Error() string          { return "own" }
func (e *ownIs) Unwrap() error        { e.calls++; return e.err }
func (e *ownIs) Is(target error) bool { e.calls++; return target == e.is }

func (shows) Error() string { return "shows" }
func (e shows) As(target any) bool {
	e.calls++
	found, ok := target.(*error)
	if ok {
		*found = e.err
	}
	return ok
}
func (e shows) Is(target error) bool { e.calls++; return errors.Is(e.err, target) }

func (knows) Error() string { return "knows" }
func (e knows) As(target any) bool {
	e.calls++
	_, any := target.(*error)
	return !any && errors.As(e.err, target)
}

// wrapped wraps leaf n times.
func wrapped(n int, leaf error, wrap func(error) error) error {
	for range n {
		leaf = wrap(leaf)
	}
	return leaf
}

// judges are the ways in which a tree is judged.
var judges = map[string]func(error){
	"DefaultClassifier": func(err error) { retry.DefaultClassifier(err) },
	"Judge":             func(err error) { retry.Policy{}.Judge(err) },
	"Final":             func(err error) { retry.Final(err) },
	"Timeout":           func(err error) { (&retry.Error{Errs: []error{err}}).Timeout() },
	"ErrorType":         func(err error) { retry.Stop(err).(interface{ ErrorType() string }).ErrorType() },
}

// To judge an error costs as much as its tree has errors, whatever their methods do and
// however often the tree holds one of them.
func TestJudgingIsLinear(t *testing.T) {
	size := 2_000
	if longTests {
		size = 10_000
	}
	refused := dial(syscall.ECONNREFUSED)
	run := func(errs ...error) error {
		return &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: len(errs), Errs: errs}
	}
	for name, tree := range map[string]func(c *tally) error{
		"chain": func(c *tally) error {
			return wrapped(size, errDown, func(err error) error { return &unwraps{c, err} })
		},
		"both": func(c *tally) error { return wrapped(size, errDown, func(err error) error { return passes{c, err} }) },
		"both, pointers": func(c *tally) error {
			return wrapped(size, errDown, func(err error) error { return &passesAsIs{passes{c, err}} })
		},
		"both, alternating": func(c *tally) error {
			return wrapped(size/2, errDown, func(err error) error { return fmt.Errorf("x: %w", passes{c, err}) })
		},
		"both, joined": func(c *tally) error {
			return wrapped(size/2, errDown, func(err error) error { return joins{c, []error{errDown, err}} })
		},
		"both, around a refused connection": func(c *tally) error {
			return wrapped(size, refused, func(err error) error { return passes{c, err} })
		},
		"both, joined alone": func(c *tally) error {
			return wrapped(size, errDown, func(err error) error { return alone{passes{c, err}} })
		},
		"behind As, with the errors below": func(c *tally) error {
			all := []error{errDown, &unwraps{c, errDown}}
			for range size {
				all = append(all, &skips{c, all[len(all)-1], all[len(all)-2]})
			}
			return all[len(all)-1]
		},
		"made while it is asked": func(c *tally) error { return again{c, 500} },
		"hidden": func(c *tally) error {
			return wrapped(size/10, errDown, func(err error) error { return conceals{c, []error{err}} })
		},
		"hidden, around both": func(c *tally) error {
			return conceals{c, []error{wrapped(size, errDown, func(err error) error { return passes{c, err} })}}
		},
		"hidden, around some with As": func(c *tally) error {
			return conceals{c, []error{wrapped(40, errDown, func(err error) error { return searches{c, err} })}}
		},
		"hidden, around some with Is": func(c *tally) error {
			return conceals{c, []error{wrapped(40, errDown, func(err error) error { return matches{c, err} })}}
		},
		"hidden, around runs of attempts": func(c *tally) error {
			return shows{c, wrapped(8, errDown, func(err error) error {
				var errs []error
				for range 8 {
					errs = append(errs, &unwraps{c, err})
				}
				return run(errs...)
			})}
		},
		"hidden, beside others with the same": func(c *tally) error {
			chain := wrapped(size/10, errDown, func(err error) error { return &unwraps{c, err} })
			var all []error
			for range 100 {
				all = append(all, &conceals{c, []error{chain}})
			}
			return errors.Join(all...)
		},
		"known to As, in marks": func(c *tally) error {
			return wrapped(size/2, errDown, func(err error) error { return retry.Undone(knows{c, err}) })
		},
		"known to As, in runs": func(c *tally) error {
			return wrapped(size/2, errDown, func(err error) error { return run(knows{c, err}) })
		},
		"go-multierror": func(c *tally) error {
			errs := make([]error, 500)
			for i := range errs {
				errs[i] = &unwraps{c, errDown}
			}
			return rest{c, errs}
		},
		"go-multierror, nested": func(c *tally) error {
			return wrapped(400, errDown, func(err error) error { return rest{c, []error{err, errDown}} })
		},
		"joined": func(c *tally) error {
			return wrapped(size/2, errDown, func(err error) error { return errors.Join(&unwraps{c, errDown}, err) })
		},
		"joined with itself": func(c *tally) error {
			return wrapped(size, errDown, func(err error) error { return &unwraps{c, errors.Join(err, err)} })
		},
		"joined with itself, in other errors": func(c *tally) error {
			return wrapped(size/3, errDown, func(err error) error { return errors.Join(&unwraps{c, err}, &unwraps{c, err}) })
		},
		"a slice with itself": func(c *tally) error {
			return wrapped(size, errDown, func(err error) error { return several{err, &unwraps{c, err}} })
		},
		"runs": func(c *tally) error {
			return wrapped(size/2, refused, func(err error) error { return run(&unwraps{c, err}) })
		},
		"runs of equal attempts": func(c *tally) error {
			return wrapped(size/2, refused, func(err error) error { return run(err, err, &unwraps{c, err}, err) })
		},
		"runs of attempts": func(c *tally) error {
			return wrapped(size/3, refused, func(err error) error { return run(&unwraps{c, err}, &unwraps{c, err}) })
		},
		"marks": func(c *tally) error {
			return wrapped(size/2, errDown, func(err error) error { return retry.Undone(&unwraps{c, err}) })
		},
		"marks, joined": func(c *tally) error {
			all := []error{errDown, errDown}
			for range size / 3 {
				all = append(all, retry.After(&unwraps{c, errors.Join(all[len(all)-1], all[len(all)-2])}, time.Second))
			}
			return all[len(all)-1]
		},
		"of net/url": func(c *tally) error {
			return wrapped(size/2, errDown, func(err error) error { return &url.Error{Op: "Get", Err: &unwraps{c, err}} })
		},
		"of net": func(c *tally) error {
			return wrapped(size/2, errDown, func(err error) error { return &net.OpError{Op: "read", Err: &unwraps{c, err}} })
		},
		"of os": func(c *tally) error {
			return wrapped(size/3, errDown, func(err error) error {
				return os.NewSyscallError("x", &fs.PathError{Err: &unwraps{c, err}})
			})
		},
		"claims": func(c *tally) error {
			return wrapped(size, errDown, func(err error) error { return &ownIs{c, err, errDown} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			for how, judge := range judges {
				c := new(tally)
				err := tree(c)
				c.calls = 0
				if judge(err); c.calls > 64*size {
					t.Errorf("%s calls %d methods in a tree of %d errors", how, c.calls, size)
				}
			}
		})
	}
}

// Any tree ends, and costs little.
func TestJudgingRandomTreesIsLinear(t *testing.T) {
	const size = 40
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		c := new(tally)
		all := []error{errDown, dial(syscall.ECONNREFUSED), fs.ErrNotExist, status(404), retry.ErrRejected, asked503{}}
		for range size {
			// Mostly the latest errors, so that trees are deep, and hold errors at several places.
			pick := func() error {
				if rnd.IntN(4) == 0 {
					return all[rnd.IntN(len(all))]
				}
				return all[max(0, len(all)-1-rnd.IntN(3))]
			}
			a, b := pick(), pick()
			all = append(all, []func() error{
				func() error { return &unwraps{c, a} },
				func() error { return passes{c, a} },
				func() error { return &passesAsIs{passes{c, a}} },
				func() error { return joins{c, []error{a, b}} },
				func() error { return conceals{c, []error{a}} },
				func() error { return &skips{c, a, b} },
				func() error { return rest{c, []error{a, b}} },
				func() error { return &ownIs{c, a, fs.ErrExist} },
				func() error { return errors.Join(a, b) },
				func() error { return fmt.Errorf("%w, %w", a, b) },
				func() error { return several{a, b} },
				func() error { return &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{a, b}} },
				func() error { return retry.Undone(a) },
				func() error { return retry.After(a, time.Second) },
				func() error { return &url.Error{Op: "Get", Err: a} },
				func() error { return &net.OpError{Op: "dial", Err: a} },
			}[rnd.IntN(16)]())
		}
		err := all[len(all)-1]
		for how, judge := range judges {
			c.calls = 0
			if judge(err); c.calls > 500*size {
				t.Fatalf("%s calls %d methods in a tree of %d errors", how, c.calls, size)
			}
		}
	}
}

// What a large tree says is what it would say if it were small.
func TestALargeTreeIsJudgedAsASmallOne(t *testing.T) {
	undone := retry.Undone(dial(syscall.ECONNREFUSED))
	few, many := []error{undone}, slices.Repeat([]error{undone}, 100)
	same := func(tree error) {
		t.Helper()
		small, large := errors.Join(append(few, tree, tree)...), errors.Join(append(many, tree, tree)...)
		if got, want := retry.DefaultClassifier(large), retry.DefaultClassifier(small); got != want {
			t.Fatalf("%v is %v in a large tree, and %v in a small one", tree, got, want)
		}
		got, want := retry.Policy{}.Judge(large), retry.Policy{}.Judge(small)
		if got.Err, want.Err = nil, nil; got != want {
			t.Fatalf("Judge(%v) = %+v in a large tree, and %+v in a small one", tree, got, want)
		}
		if got, want := retry.Final(large), retry.Final(small); got != want {
			t.Fatalf("Final(%v) = %v in a large tree, and %v in a small one", tree, got, want)
		}
	}
	late := &timesOut{errDown} // says that it is late only if no error decides
	same(errors.Join(dial(late), &url.Error{Op: "Get", Err: late}))
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		c := new(tally)
		all := []error{errDown, dial(syscall.ECONNREFUSED), fs.ErrNotExist, timeout(true), hinted(time.Second), asked503{}, retry.ErrRejected}
		for range 12 {
			a, b := all[rnd.IntN(len(all))], all[rnd.IntN(len(all))]
			all = append(all, []func() error{
				func() error { return &unwraps{c, a} },
				func() error { return waitsFor{time.Minute, a} },
				func() error { return &timesOut{a} },
				func() error { return errors.Join(a) },
				func() error { return errors.Join(a, b) },
				func() error { return several{b, a} },
				func() error { return &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{a, b}} },
				func() error { return retry.Undone(a) },
				func() error { return &url.Error{Op: "Get", Err: a} },
				func() error { return &net.OpError{Op: "dial", Err: a} },
				func() error { return &fs.PathError{Err: a} },
			}[rnd.IntN(11)]())
		}
		same(all[len(all)-1])
	}
}

// timesOut wraps an error and is a timeout.
type timesOut struct{ err error }

func (timesOut) Error() string    { return "times out" }
func (e *timesOut) Unwrap() error { return e.err }
func (*timesOut) Timeout() bool   { return true }

// An error that holds itself adds nothing to what else it holds.
func TestAnErrorThatHoldsItselfIsJudged(t *testing.T) {
	itself := several{nil, status(404)}
	itself[0] = itself
	if got := retry.DefaultClassifier(itself); got != retry.Permanent {
		t.Errorf("DefaultClassifier = %v, want permanent", got)
	}
	if got := (retry.Policy{}).Judge(itself).Class; got != retry.Permanent {
		t.Errorf("Judge = %v, want permanent", got)
	}
}

// errors.Is goes through runs in runs once, if their attempts returned the same errors.
func TestRunsInRunsAreSearchedOnce(t *testing.T) {
	c := new(tally)
	err := wrapped(1000, errDown, func(err error) error {
		var errs []error
		for range 8 {
			errs = append(errs, err)
		}
		return &unwraps{c, &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 8, Errs: errs}}
	})
	if errors.Is(err, fs.ErrExist) || !errors.Is(err, errDown) || c.calls != 2000 {
		t.Errorf("errors.Is goes through %d of 1000 runs, twice", c.calls)
	}
}

type asked503 struct{}

func (asked503) Error() string             { return "503" }
func (asked503) StatusCode() int           { return 503 }
func (asked503) RetryAfter() time.Duration { return time.Second }
