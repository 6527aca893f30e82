package retryhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotReplayable is found by [errors.Is] in the error of an attempt that was the
// last one because the request's body cannot be sent again: it has neither
// GetBody nor Seek, and what was sent of it is more than Transport.MaxBuffer, or
// its Read failed or still blocks.
var ErrNotReplayable = errors.New("the request's body cannot be sent again")

// unreplayable is an attempt's error that ends the run because of the body.
type unreplayable struct{ err, lost error }

func (e *unreplayable) Error() string   { return e.err.Error() + "; " + e.lost.Error() }
func (e *unreplayable) Unwrap() []error { return []error{e.err, e.lost} }

// patience is how long a retry waits for what it leaves behind: a request body
// whose Read blocks, a response body that does not end.
const patience = 50 * time.Millisecond

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// body is the body of a call's request, to be sent as often as needed: next for
// each attempt; after one that failed hold and, if a retry follows, drop; in the
// end finish.
type body struct {
	req    *http.Request
	taken  bool          // by the first attempt, which closes it unless there is a replay
	held   bool          // hold has succeeded, for the next attempt
	copied io.ReadCloser // what GetBody gave for that
	replay *replay       // nil if there is no body, or GetBody
}

// next returns the body for one more attempt. limit is Transport.MaxBuffer.
func (b *body) next(limit int64) (body io.ReadCloser) {
	b.held = false
	switch {
	case !b.taken:
		b.taken = true
		if b.replay = newReplay(b.req, limit); b.replay == nil {
			return b.req.Body
		}
	case !hasBody(b.req):
		return b.req.Body
	case b.replay == nil:
		body, b.copied = b.copied, nil
		return body
	}
	return b.replay.next()
}

// hold makes sure of the body for another attempt, or returns why there cannot be
// one. Nothing is read for the latest attempt until drop or finish.
func (b *body) hold() (err error) {
	switch {
	case b.replay != nil:
		err = b.replay.hold()
	case hasBody(b.req):
		b.copied, err = b.req.GetBody()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotReplayable, err)
	}
	b.held = true
	return nil
}

// drop ends the latest attempt's reading, since another attempt follows. Its error
// is that of hold if that was not called, because a policy said one thing when
// asked and then another.
func (b *body) drop() error {
	if !b.held {
		if err := b.hold(); err != nil {
			return err
		}
	}
	if b.replay != nil {
		b.replay.detach()
	}
	return nil
}

// finish ends the call. Beside a response that is returned the base transport may
// still be reading.
func (b *body) finish(returned bool) {
	switch {
	case b.replay != nil:
		b.replay.finish(returned)
	case b.copied != nil:
		b.copied.Close()
		b.copied = nil
	case !b.taken && b.req.Body != nil:
		b.req.Body.Close()
	}
}

// replay sends a body without GetBody as often as needed. Each attempt gets a
// view of it. The base transport closes that, and may go on reading it when the
// next attempt begins; the body itself is read by one view at a time and closed
// once.
//
// What is kept is kept in passing. To read it all at first would delay streams,
// and wait forever for one whose writer waits for the response.
type replay struct {
	src    io.Reader
	close  func() error
	seeker io.Seeker // nil: what is read is kept
	start  int64     // where the seeker stood

	latest *view
	held   bool          // the call has the turn
	at     int64         // where the latest view had read to when the seeker went back
	turn   chan struct{} // has a token while somebody reads src, or nobody may

	// For who has the turn:
	limit int64 // of kept
	kept  []byte
	over  bool  // more than that was read
	end   error // what src's Read ended with
}

// newReplay returns nil for a request that needs none.
func newReplay(req *http.Request, limit int64) *replay {
	if !hasBody(req) || req.GetBody != nil {
		return nil
	}
	if limit == 0 {
		limit = 64 << 10
	}
	b := &replay{src: req.Body, close: sync.OnceValue(req.Body.Close), turn: make(chan struct{}, 1), limit: max(limit, 0)}
	if s, ok := req.Body.(io.Seeker); ok {
		if start, err := s.Seek(0, io.SeekCurrent); err == nil { // it fails on a pipe
			b.seeker, b.start = s, start
		}
	}
	return b
}

// next returns a view for one more attempt.
func (b *replay) next() io.ReadCloser {
	b.latest = &view{body: b}
	return b.latest
}

// hold stops the reading until detach or finish, and goes back to the start. It
// returns why the body cannot be sent again.
func (b *replay) hold() error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case b.turn <- struct{}{}:
		b.held = true
	case <-timer.C:
		b.last()
		return errors.New("its Read blocks")
	}
	switch {
	case b.seeker != nil:
		at, err := b.seeker.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		b.at = at
		_, err = b.seeker.Seek(b.start, io.SeekStart)
		return err
	case b.over:
		return errors.New("it is larger than Transport.MaxBuffer")
	case b.end != nil && b.end != io.EOF:
		return b.end
	}
	return nil
}

// detach ends the reading by the latest view.
func (b *replay) detach() {
	if b.held {
		b.latest.dead = true
		b.release()
	}
}

func (b *replay) release() {
	b.held = false
	<-b.turn
}

// last says that no view follows the latest: with that, or now if the base
// transport has closed it already, the body is closed.
func (b *replay) last() {
	b.latest.final.Store(true)
	if b.latest.closed.Load() {
		_ = b.close()
	}
}

// finish ends the call. Beside a response that is returned the base transport may
// still be reading.
func (b *replay) finish(returned bool) {
	if b.held {
		if b.seeker != nil && returned { // the latest view goes on where it was
			_, _ = b.seeker.Seek(b.at, io.SeekStart)
		}
		b.release()
	}
	if returned {
		b.last()
		return
	}
	select {
	case b.turn <- struct{}{}:
		b.latest.dead = true
		<-b.turn
	default: // a Read that blocks is ended by Close
	}
	_ = b.close()
}

// view is the body of one attempt.
type view struct {
	body          *replay
	sent          int  // of body.kept
	dead          bool // the attempt is over; guarded by body.turn
	closed, final atomic.Bool
}

func (v *view) Read(p []byte) (n int, err error) {
	b := v.body
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	switch {
	case v.dead:
		return 0, errors.New("retryhttp: read by an attempt that is over")
	case b.seeker != nil:
		return b.src.Read(p)
	case v.sent < len(b.kept):
		n = copy(p, b.kept[v.sent:])
		v.sent += n
		return n, nil
	case b.end != nil:
		return 0, b.end
	}
	n, b.end = b.src.Read(p)
	if int64(len(b.kept)+n) <= b.limit {
		b.kept = append(b.kept, p[:n]...)
		v.sent += n
	} else {
		b.kept, b.limit, b.over = nil, 0, true
	}
	return n, b.end
}

func (v *view) Close() error {
	v.closed.Store(true)
	if v.final.Load() {
		return v.body.close()
	}
	return nil
}
