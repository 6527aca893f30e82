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

// ErrNotReplayable is in the error of an attempt that was the last one because the
// request's body cannot be sent again. Its GetBody or Seek failed; or it has neither,
// and either more than Transport.MaxBuffer of it was sent, or its Read failed or still
// blocks.
var ErrNotReplayable = errors.New("the request's body cannot be sent again")

// unreplayable is an attempt's error that ends the run because of the body.
type unreplayable struct{ err, lost error }

func (e *unreplayable) Error() string   { return e.err.Error() + "; " + e.lost.Error() }
func (e *unreplayable) Unwrap() []error { return []error{e.err, e.lost} }

// patience is how long a retry waits for a request body whose Read blocks, or for a
// response body that does not end.
const patience = 50 * time.Millisecond

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// body is the body of a call's request, which may be sent several times. The call uses
// next for each attempt; after a failed attempt rewind and, if a retry follows, drop;
// and finally finish.
type body struct {
	req     *http.Request
	taken   bool          // by the first attempt, which closes it unless there is a replay
	rewound bool          // rewind has succeeded, for the next attempt
	copied  io.ReadCloser // what GetBody returned for it
	replay  *replay       // nil if there is no body, or GetBody
}

// next returns the body for one more attempt. limit is Transport.MaxBuffer.
func (b *body) next(limit int64) (body io.ReadCloser) {
	b.rewound = false
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
	b.replay.latest = &view{body: b.replay}
	return b.replay.latest
}

// rewind prepares the body for another attempt, or returns why there cannot be one. The
// latest attempt reads nothing more until drop or finish.
func (b *body) rewind() (err error) {
	switch {
	case b.replay != nil:
		err = b.replay.rewind()
	case hasBody(b.req):
		b.copied, err = b.req.GetBody()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotReplayable, err)
	}
	b.rewound = true
	return nil
}

// drop ends the latest attempt's reading, since another attempt follows. If rewind was
// not called, because a policy changed its decision, drop calls it and returns its
// error.
func (b *body) drop() error {
	if !b.rewound {
		if err := b.rewind(); err != nil {
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

// replay sends a body without GetBody several times. Each attempt gets a view of it.
// The base transport closes the view, and may still be reading it when the next
// attempt starts. The body itself is read by one view at a time, and closed once.
//
// Bytes are kept while they are sent. Reading the whole body first would delay
// streams, and would block for ever if the writer waits for the response.
type replay struct {
	src    io.Reader
	close  func() error
	seeker io.Seeker // nil: bytes that were read are kept
	start  int64     // the seeker's first position

	latest *view
	paused bool          // the call has the turn, so that no view reads
	at     int64         // where the latest view had read to when the seeker went back
	turn   chan struct{} // has a token while src is being read, or must not be

	// Only for the holder of the turn:
	limit int64 // of kept
	kept  []byte
	over  bool  // more than limit was read
	end   error // what src's Read ended with
}

// newReplay returns nil for a request that needs no replay.
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

// rewind pauses the reading until detach or finish, and goes back to the start. It
// returns why the body cannot be sent again.
func (b *replay) rewind() error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case b.turn <- struct{}{}:
		b.paused = true
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
	if b.paused {
		b.latest.dead = true
		b.resume()
	}
}

func (b *replay) resume() {
	b.paused = false
	<-b.turn
}

// last says that no further view follows. The body is closed with the latest view, or
// now if the base transport has already closed that view.
func (b *replay) last() {
	b.latest.final.Store(true)
	if b.latest.closed.Load() {
		_ = b.close()
	}
}

// finish ends the call.
func (b *replay) finish(returned bool) {
	if b.paused {
		if b.seeker != nil && returned { // the latest view continues where it was
			_, _ = b.seeker.Seek(b.at, io.SeekStart)
		}
		b.resume()
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
