package retrygrpc

import (
	"sync"

	"google.golang.org/grpc"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc/internal/ending"
)

// held is a stream that goes on after its run is over, for the policy's guards, which hear when it
// ends, and for the caller's OnFinish. grpc may end the stream on another goroutine, and before the run
// is over.
type held struct {
	mu    sync.Mutex
	taken bool             // the run has taken the stream for a success
	leave func(retry.Exit) // nil without guards
	ended bool
	err   error // with which it ended
	fault any   // what a guard has panicked with since, where nobody could recover from it
}

// repeat repeats the panic of a guard on the caller's goroutine.
func (h *held) repeat() {
	if h == nil {
		return
	}
	h.mu.Lock()
	fault := h.fault
	h.fault = nil
	h.mu.Unlock()
	if fault != nil {
		panic(fault)
	}
}

// heldStream is a stream that goes on for the guards.
type heldStream struct {
	grpc.ClientStream
	held *held
}

func (s heldStream) RecvMsg(m any) error {
	defer s.held.repeat()
	return s.ClientStream.RecvMsg(m)
}

func (s heldStream) SendMsg(m any) error {
	defer s.held.repeat()
	return s.ClientStream.SendMsg(m)
}

// onFinish has grpc call f, which calls finish, when the attempt's stream has ended.
func (a *attempt) onFinish(f func(error)) {
	if a.guarded || a.finishing != nil {
		a.held = new(held)
	}
	a.opts = append(a.opts, grpc.OnFinish(f))
}

// hold keeps the attempt until its stream ends.
func (a *attempt) hold() {
	h := a.held
	if h == nil {
		return
	}
	var leave func(retry.Exit)
	if a.guarded {
		leave = a.run.Hold()
	}
	a.goesOn = true
	h.mu.Lock()
	h.taken, h.leave = true, leave
	ended := h.ended
	h.mu.Unlock()
	if ended {
		a.leave(h.err)
	}
}

// finish ends the attempt whose stream has ended with err.
func (a *attempt) finish(err error) {
	a.limit.release() // or the context would stay with its parent
	h := a.held
	if h == nil {
		return
	}
	h.mu.Lock()
	h.ended, h.err = true, err
	taken := h.taken
	h.mu.Unlock()
	if taken {
		defer a.keepFault()
		a.leave(err)
	}
}

// keepFault recovers from a panic of a guard if grpc may have ended the stream on a goroutine of
// its own. The caller's next call of the stream repeats it.
func (a *attempt) keepFault() {
	if a.ctx.Err() == nil && !a.closed() {
		return
	}
	if fault := recover(); fault != nil {
		a.held.mu.Lock()
		defer a.held.mu.Unlock()
		a.held.fault = fault
	}
}

// leave tells the guards what the stream of a run that is over has come to, and then the caller.
func (a *attempt) leave(err error) {
	defer a.finishing.with(err)
	if a.held.leave == nil {
		return
	}
	x := retry.Exit{Ending: retry.Panicked} // if Classify does
	defer func() { a.held.leave(x) }()
	x = a.exit(err)
}

// exit returns what guards get about a stream that has ended with err. Classify is not called
// if the caller has ended it: then grpc has a goroutine of its own for that.
func (a *attempt) exit(err error) retry.Exit {
	ctx := a.run.RunContext()
	x := retry.Exit{Ending: ending.Of(ctx)}
	if deadline, ok := ctx.Deadline(); ok && x.Ending == retry.Returned && !orSystem(a.clock).Now().Before(deadline) {
		x.Ending = retry.Expired // a server that got the deadline may notice before the context ends
	}
	switch {
	case err == nil:
		x.Ending = retry.Returned
	case x.Ending != retry.Returned:
		x.Verdict.Err = err
	case a.closed():
		x.Ending, x.Verdict.Err = retry.Canceled, err
	default:
		x.Verdict = a.judge(err)
	}
	return x
}

// abandon gives back what is held for a stream that nobody gets.
func (a *attempt) abandon() {
	a.close()
	if h := a.held; h != nil && h.leave != nil {
		h.leave(retry.Exit{Ending: retry.Panicked})
	}
}
