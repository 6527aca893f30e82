package neterr_test

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"testing"

	"github.com/goretry/retry/internal/neterr"
)

// alike is no error of package net, though it has all of their methods.
type alike struct{}

func (*alike) Error() string   { return "alike" }
func (*alike) Timeout() bool   { return true }
func (*alike) Temporary() bool { return true }
func (*alike) Unwrap() error   { return nil }

// OpError has the name of one.
type OpError struct{ net.OpError }

func TestOf(t *testing.T) {
	down := errors.New("down")
	for range 2 { // as they are met, and as they are remembered
		for _, tt := range []struct {
			err  error
			want neterr.Kind
		}{
			{nil, neterr.Other},
			{down, neterr.Other},
			{&alike{}, neterr.Other},
			{&OpError{}, neterr.Other},
			{&fs.PathError{}, neterr.Other},
			{&net.AddrError{}, neterr.Other},
			{&url.Error{Op: "Get", Err: down}, neterr.URL},
			{(*url.Error)(nil), neterr.URL},
			{&net.OpError{Op: "dial", Err: down}, neterr.Op},
			{&net.DNSError{}, neterr.DNS},
		} {
			if got := neterr.Of(tt.err); got != tt.want {
				t.Errorf("%T is %d, want %d", tt.err, got, tt.want)
			}
		}
	}
	if op := neterr.URL.Operation(&url.Error{Op: "Get"}); op != "Get" {
		t.Errorf("the operation of a *url.Error is %q", op)
	}
	if op := neterr.Op.Operation(&net.OpError{Op: "dial"}); op != "dial" {
		t.Errorf("the operation of a *net.OpError is %q", op)
	}
	if got := neterr.Op.Inner(&net.OpError{Op: "dial", Net: "tcp", Err: down}); got != down {
		t.Errorf("in a *net.OpError is %v", got)
	}
	for _, none := range []error{&url.Error{}, (*url.Error)(nil)} {
		if got := neterr.URL.Inner(none); got != nil {
			t.Errorf("in %#v is %v", none, got)
		}
	}
	for said, e := range map[neterr.Condition]net.DNSError{
		neterr.NotFound: {IsNotFound: true}, neterr.Timeout: {IsTimeout: true}, neterr.Temporary: {IsTemporary: true},
	} {
		for _, c := range []neterr.Condition{neterr.NotFound, neterr.Timeout, neterr.Temporary} {
			if got := neterr.Says(&e, c); got != (c == said) {
				t.Errorf("%+v says %v of condition %d", e, got, c)
			}
		}
	}
}
