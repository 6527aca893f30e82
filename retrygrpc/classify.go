package retrygrpc

import (
	"math"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
)

// Classify is a [retry.Classifier] for calls in a plain [retry.Do]. It uses only the
// code of a status error: UNAVAILABLE is Transient, DEADLINE_EXCEEDED is TimedOut,
// RESOURCE_EXHAUSTED is Throttled, and all others are Permanent. No error is
// Unprocessed, since a code proves nothing. Classify returns Unknown for nil, for
// errors without a status, and for errors that hold a *[retry.Error], for which
// package retry has rules.
func Classify(err error) retry.Class {
	st, ok := statusOf(err)
	if !ok {
		return retry.Unknown
	}
	return classOf(st.Code())
}

// classOf returns the class of a code, Permanent for the OK of an error. Without this package
// internal/clienterr judges codes, by its table grpc.
func classOf(c codes.Code) retry.Class {
	switch c {
	case codes.Unavailable:
		return retry.Transient
	case codes.DeadlineExceeded:
		return retry.TimedOut
	case codes.ResourceExhausted:
		return retry.Throttled
	}
	return retry.Permanent
}

// statusOf returns the status of err, unless it belongs to a run inside err.
func statusOf(err error) (*status.Status, bool) {
	if err == nil {
		return nil, false
	}
	left := most
	run, grpc := search(err, &left)
	switch {
	case run != nil, grpc == nil:
		return nil, false
	case grpc == err:
		return status.FromError(err)
	}
	return status.FromError(&behind{grpc, err})
}

// behind is an error with a status that is somewhere in the tree of err.
type behind struct{ status, err error }

func (b *behind) Error() string { return b.err.Error() }
func (b *behind) Unwrap() error { return b.status }

// most is how many errors of a tree are visited.
const most = 1000

// search returns the first run in the tree of err, or else its first error with a status. errors.As
// calls methods As, which may search what an error wraps, and then searches it: a chain of n such
// errors costs it 2ⁿ. So such a method is called for an error of any type, which it has at once.
func search(err error, left *int) (run *retry.Error, grpc error) {
	for err != nil {
		if *left--; *left < 0 {
			return nil, grpc
		}
		if e, ok := err.(*retry.Error); ok {
			return e, grpc
		}
		if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok && grpc == nil {
			grpc = err
		}
		also := func(err error) {
			if run == nil {
				more := error(nil)
				if run, more = search(err, left); grpc == nil {
					grpc = more
				}
			}
		}
		var next error
		var joined []error
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			next = e.Unwrap()
		case interface{ Unwrap() []error }:
			joined = e.Unwrap()
		}
		if e, ok := err.(interface{ As(any) bool }); ok {
			var shown error
			var known *retry.Error
			switch {
			case e.As(&shown) && shown != nil:
				if !same(shown, next) && !slices.ContainsFunc(joined, func(err error) bool { return same(shown, err) }) {
					also(shown)
				}
			case e.As(&known):
				run = known
			}
		}
		for _, err := range joined {
			also(err)
		}
		if run != nil {
			return run, grpc
		}
		err = next
	}
	return nil, grpc
}

// judge returns the verdict on an attempt that ended with err. To the run a Permanent
// answer is a success: the caller gets the answer from the call.
func (a *attempt) judge(err error) retry.Verdict {
	st, ok := statusOf(err)
	bare := retry.Policy{}.Judge(err)
	if !ok || bare.Marked || bare.Answered { // without a status from grpc, or no classifier sees it
		v := retry.Policy{Classify: a.call.classify}.Judge(err)
		v.Undone = v.Undone || v.Class == retry.Unprocessed // this was one call
		return v
	}
	wait, pushed, refused := a.pushback()
	info, timed := retryInfo(st)
	f := &failure{error: bare.Err, status: st, hint: max(wait, info)}
	if a.dropped(st) {
		return retry.Verdict{Err: f, Class: retry.Unprocessed, Undone: true, Refused: true}
	}
	f.now = f.hint == 0 && (pushed || timed)
	v := retry.Verdict{Err: f, Hint: f.hint, Now: f.now, Class: retry.Classifiers(a.call.classify)(f.error)}
	if v.Class == retry.Unknown {
		v.Class = a.classify(st, f.hint, pushed && wait == 0)
	}
	v.Undone = bare.Undone || v.Class == retry.Unprocessed || v.Class == retry.Throttled && f.hint > 0 && mayAsk(st.Code())
	canceled := st.Code() == codes.Canceled && a.run.Context().Err() != nil
	switch {
	case v.Class == retry.Permanent && a.answered() && !canceled:
		a.answer = final(f, st)
		return retry.Verdict{}
	case v.Class != retry.Permanent:
		v.Refused = refused
	}
	return v
}

// mayAsk reports whether a server that ends a call with this code can ask for that very
// call again, whatever the method.
func mayAsk(c codes.Code) bool {
	return c == codes.Unavailable || c == codes.ResourceExhausted || c == codes.Aborted
}

// unencoded reports whether grpc could not encode the request, so that no server has seen
// it, and none will. grpc says so by nothing but a text (rpc_util.go, encode and compress).
// A server that cannot encode its response sends the same text, in an answer.
func unencoded(st *status.Status) bool {
	return st.Code() == codes.Internal &&
		(strings.HasPrefix(st.Message(), "grpc: error while marshaling:") || strings.HasPrefix(st.Message(), "grpc: error while compressing:"))
}

// tokenless reports whether grpc could not get the credentials of a call, so that no server has
// seen it. grpc says so by nothing but a text (internal/transport/http2_client.go, getTrAuthData
// and getCallAuthData), and a server may send that as well.
func tokenless(st *status.Status) bool {
	return strings.HasPrefix(st.Message(), "transport: per-RPC creds failed due to error:")
}

// dropped reports whether the load balancing policy of the connection has dropped the attempt,
// by which a control plane sheds load. grpc does not repeat that either (stream.go, shouldRetry),
// but tells nobody: to a caller it is an attempt that was not sent. A policy that has a server
// ends an attempt in no other way. One that has none fails it in TRANSIENT_FAILURE, and has it
// wait in other states. So only credentials that fail with a status look the same.
func (a *attempt) dropped(st *status.Status) bool {
	switch c := st.Code(); {
	case a.sent(), !a.asked.Load(): // if grpc was not asked, an interceptor has failed it
		return false
	case c == codes.Canceled, c == codes.DeadlineExceeded: // it has waited until its context ended, or that of the service config
		return false
	case tokenless(st), unencoded(st), unconnected(st):
		return false
	}
	return a.before != connectivity.TransientFailure && a.cc.GetState() == connectivity.Ready
}

// unconnected reports whether grpc could not connect. The connection may be there by now (balancer's
// pickers of pick_first and base; internal/transport, ConnectionError).
func unconnected(st *status.Status) bool {
	return st.Code() == codes.Unavailable &&
		(strings.HasPrefix(st.Message(), "connection error: desc = ") || strings.HasPrefix(st.Message(), "last connection error: "))
}

// classify returns the class of an attempt that ended with a status. hint is what
// the server asked for; now says that it asked for a retry without a wait.
func (a *attempt) classify(st *status.Status, hint time.Duration, now bool) retry.Class {
	c := st.Code()
	class := classOf(c)
	if !a.sent() && tokenless(st) && !a.closed() {
		return retry.Unprocessed
	}
	switch c {
	case codes.ResourceExhausted: // also grpc's own code for a message that is too large
		if !a.trailersOnly() {
			class = retry.Permanent
		}
	case codes.Internal, codes.Unknown, codes.Canceled: // a broken stream or a proxy's page; without a stream, bad metadata
		if !a.answered() && (a.sent() || c != codes.Internal) && !unencoded(st) {
			class = retry.Transient
		}
	}
	switch {
	case mayAsk(c) && now:
		return retry.Unprocessed
	case mayAsk(c) && hint > 0:
		return retry.Throttled // with its hint: the server asks for this very call again
	case hint > 0 && (c == codes.Internal || c == codes.Unknown):
		return retry.Transient
	case hint > 0 && c == codes.DeadlineExceeded:
		return class
	case class == retry.Permanent, a.closed() && !a.answered():
		return retry.Permanent
	case !a.sent():
		return retry.Unprocessed
	}
	return class
}

// same reports whether a and b are equal, and can be compared.
func same(a, b error) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

// evidence is what grpc reports about an attempt besides its error. It is complete
// when grpc has returned the error. In grpc.OnFinish older versions of grpc have not got it
// yet, 1.63 among them.
type evidence struct {
	goesOn          bool // the stream, after its run: no retry depends on the rest
	header, trailer metadata.MD
	peer            peer.Peer
	before          connectivity.State // of the connection when the attempt began
	asked           atomic.Bool        // grpc has made the attempt, and it is over
}

// deliver gives the caller what its options ask for.
func (e *evidence) deliver(opts []grpc.CallOption) {
	for _, opt := range opts {
		switch opt := opt.(type) {
		case grpc.HeaderCallOption:
			*opt.HeaderAddr = e.header
		case grpc.TrailerCallOption:
			*opt.TrailerAddr = e.trailer
		case grpc.PeerCallOption:
			*opt.PeerAddr = peer.Peer{}
			if e.sent() {
				*opt.PeerAddr = e.peer
			}
		}
	}
}

// nobody is the address of the peer until grpc has created a stream.
type nobody struct{ net.Addr }

// sent reports whether there was a stream. Without one the server has not seen the
// attempt.
func (e *evidence) sent() bool { return e.goesOn || e.peer.Addr != nobody{} }

// answered reports whether the server has sent a gRPC response.
func (e *evidence) answered() bool { return e.goesOn || len(e.header) > 0 || len(e.trailer) > 0 }

// trailersOnly reports whether the response had trailers only, and so was an error
// without headers. Only then are a response's first headers its trailer.
func (e *evidence) trailersOnly() bool {
	return e.goesOn || len(e.header) == 0 && len(e.trailer["content-type"]) > 0
}

const pushbackKey = "grpc-retry-pushback-ms"

// pushback returns the wait that the server asks for by grpc-retry-pushback-ms, and
// whether it sent one at all. Any value except a single number that is neither
// negative nor too large is a refusal (gRFC A6, "Pushback").
func (e *evidence) pushback() (wait time.Duration, ok, refused bool) {
	values := e.trailer[pushbackKey]
	if len(values) == 0 {
		return 0, false, false
	}
	ms, err := strconv.ParseInt(values[0], 10, 64)
	if len(values) > 1 || err != nil || ms < 0 {
		return 0, false, true
	}
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64, true, false
	}
	return time.Duration(ms) * time.Millisecond, true, false
}

// retryInfo returns the longest wait that the details of a status ask for, and whether they ask
// for one at all, which may be 0.
func retryInfo(st *status.Status) (wait time.Duration, ok bool) {
	for _, detail := range st.Details() {
		info, _ := detail.(*errdetails.RetryInfo)
		if delay := info.GetRetryDelay(); delay != nil && delay.AsDuration() >= 0 {
			wait, ok = max(wait, delay.AsDuration()), true
		}
	}
	return wait, ok
}
