package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The services that the program starts are this binary.
func TestMain(m *testing.M) {
	if !actAsChild() {
		os.Exit(m.Run())
	}
}

// play returns what a story has counted, by name.
func play(t *testing.T, s story) map[string]float64 {
	if _, _, err := installed(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI must test it: %v", err)
		}
		t.Skip(err)
	}
	var out bytes.Buffer
	s.client = "retry"
	figures, err := s.play(&out)
	if err != nil {
		t.Errorf("play() = %v", err)
	}
	for _, name := range s.troubles {
		if !strings.Contains(out.String(), troubles[name].text+"\n") {
			t.Errorf("the output has no %q", troubles[name].text)
		}
	}
	t.Logf("output:\n%s", out.String())
	counted := map[string]float64{}
	for _, f := range figures {
		counted[f.Name] = f.Value
	}
	return counted
}

func TestNoPaymentIsLost(t *testing.T) {
	counted := play(t, story{length: 7 * time.Second, rate: 40, troubles: []string{"kill", "restart", "freeze", "away", "stall"}})
	for name, want := range map[string]float64{"payments": 280, "payments applied": 280, "that shops were told of lost or changed": 0,
		"in all accounts": accounts * opening, "accounts differ from their payments": 0, "of nothing": 0, "with another trace": 0} {
		if got, ok := counted[name]; !ok || got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A rollout under load cuts nothing that is underway. A gateway that ends before its
// requests do answers some of them by 500, as its connections to the ledgers are closed.
func TestRolloutCutsNothing(t *testing.T) {
	counted := play(t, story{length: 8 * time.Second, rate: 20, slow: 100 * time.Millisecond, troubles: []string{"rollout"}})
	for _, name := range []string{"connections cut", "answers 500", "cut while the third party worked"} {
		if n, ok := counted[name]; !ok || n != 0 {
			t.Errorf("%s: %v, want 0", name, n)
		}
	}
}

// A server that is to end says so, goes on for a while, and then ends what is underway.
func TestServeEndsWhatIsUnderway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), closed: make(chan bool)}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: l.dial}}
		leaving := false
		work := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			fmt.Fprint(w, leaving)
		})
		ctx, terminate := context.WithCancel(t.Context())
		began := time.Now()
		var served time.Duration
		var all sync.WaitGroup
		all.Go(func() {
			if err := serve(ctx, &http.Server{Handler: work}, l, func() { leaving = true }); err != nil {
				t.Errorf("serve() = %v", err)
			}
			served = time.Since(began)
		})
		get := func() string {
			resp, err := client.Get("http://gateway/")
			if err != nil {
				return err.Error()
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return fmt.Sprint(string(body), " ", err)
		}
		terminate()
		synctest.Wait()
		if !leaving {
			t.Error("it does not say that it is leaving")
		}
		time.Sleep(notice - 1)
		if got := get(); got != "true <nil>" {
			t.Errorf("a request during the notice: %s, want an answer", got)
		}
		if got := get(); !strings.Contains(got, "closed") {
			t.Errorf("a request after the notice: %s, want no connection", got)
		}
		all.Wait()
		if want := notice - 1 + time.Second; served < want {
			t.Errorf("serve() returned after %v, want at least the %v for which a request was underway", served, want)
		}
	})
}

// pipes is a listener within a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan bool
	once   sync.Once
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
