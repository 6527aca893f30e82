// Command deadconn shows what calls of HTTP clients do when the connections in their pool have
// died, and what a slow server sees of that:
//
//	go run ./bench/cmd/deadconn
//
// It takes some minutes. An attempt has a second, and a call four attempts. Each client is used
// as its documentation says, on an http.Transport with default settings, and has a server and a
// proxy to itself. A cell says how many calls in a row fail after the fault before one succeeds, how many
// attempts all of them make, and after how many seconds that is. After six failures it says
// never.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/proxytest"
	"github.com/goretry/retry/retryhttp"
)

const (
	attempts = 4
	limit    = time.Second // of an attempt
	wait     = 50 * time.Millisecond
)

var policy = retry.Policy{MaxAttempts: attempts, AttemptTimeout: limit, Backoff: retry.Constant(wait)}

// getter makes one call.
type getter func(ctx context.Context, url string) error

// clients are the rows. Their calls go through base.
var clients = []struct {
	name string
	on   func(base http.RoundTripper) getter
}{
	{"retryhttp.Transport", func(base http.RoundTripper) getter {
		return get(&http.Client{Transport: &retryhttp.Transport{Base: base, Policy: policy}})
	}},
	{"retryhttp.JSON", func(base http.RoundTripper) getter {
		c := &http.Client{Transport: base}
		return func(ctx context.Context, url string) error {
			req, err := http.NewRequest("GET", url, nil)
			if err != nil {
				return err
			}
			_, err = retryhttp.JSON[struct{}](ctx, policy, c, req)
			return err
		}
	}},
	{"retryhttp, hedged", func(base http.RoundTripper) getter {
		h := &hedge.Hedge{Delay: 200 * time.Millisecond}
		return get(&http.Client{Transport: &retryhttp.Transport{Base: base, Policy: policy, Hedge: func(string) *hedge.Hedge { return h }}})
	}},
	{"retry.Do around a client", func(base http.RoundTripper) getter {
		call := get(&http.Client{Transport: base})
		return func(ctx context.Context, url string) error {
			_, err := retry.Do(ctx, policy, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx, url) })
			return err
		}
	}},
	{"failsafehttp", func(base http.RoundTripper) getter {
		p := failsafehttp.NewRetryPolicyBuilder().WithMaxAttempts(attempts).WithDelay(wait).Build()
		return get(&http.Client{Transport: failsafehttp.NewRoundTripper(base, p, timeout.New[*http.Response](limit))})
	}},
	{"go-retryablehttp", func(base http.RoundTripper) getter {
		c := retryablehttp.NewClient()
		c.HTTPClient = &http.Client{Transport: base, Timeout: limit}
		c.Logger, c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = nil, attempts-1, wait, wait
		return get(c.StandardClient())
	}},
}

func get(c *http.Client) getter {
	return func(ctx context.Context, url string) error {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
}

// scene is a server behind a proxy, and a client of it.
type scene struct {
	*proxytest.Proxy
	url     string
	call    getter
	plain   getter // the same connections, without retries
	sent    atomic.Int32
	release chan struct{} // ends the long polls
	polling atomic.Int32
}

func start(http2 bool, on func(http.RoundTripper) getter) (*scene, func()) {
	s := &scene{release: make(chan struct{})}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pooled":
			time.Sleep(200 * time.Millisecond)
		case "/poll":
			s.polling.Add(1)
			select {
			case <-s.release:
			case <-r.Context().Done():
			}
		case "/slow":
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, "{}")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = http2
	server.StartTLS()
	proxy, err := proxytest.New(server.Listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	s.Proxy, s.url = proxy, "https://"+proxy.Addr()
	base := server.Client().Transport.(*http.Transport)
	base.MaxIdleConnsPerHost = 100
	s.plain = get(&http.Client{Transport: base})
	s.call = on(counting{base, &s.sent})
	return s, func() {
		proxy.Close()
		server.CloseClientConnections()
		server.Close()
	}
}

// counting counts the requests that a client sends.
type counting struct {
	http.RoundTripper
	sent *atomic.Int32
}

func (c counting) RoundTrip(req *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.RoundTripper.RoundTrip(req)
}

func (c counting) CloseIdleConnections() { c.RoundTripper.(*http.Transport).CloseIdleConnections() }

// pool makes n connections, of HTTP/2 one.
func (s *scene) pool(n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() { _ = s.plain(context.Background(), s.url+"/pooled") })
	}
	all.Wait()
}

// polls has n long polls under way.
func (s *scene) polls(n int, lost *atomic.Int32) {
	for range n {
		go func() {
			if s.plain(context.Background(), s.url+"/poll") != nil {
				lost.Add(1)
			}
		}()
	}
	for int(s.polling.Load()) < n {
		time.Sleep(time.Millisecond)
	}
}

// recovery makes calls until one succeeds.
func (s *scene) recovery() string {
	s.sent.Store(0)
	began := time.Now()
	for failed := range 6 {
		if s.call(context.Background(), s.url) == nil {
			return fmt.Sprintf("%d, %d, %.1f", failed, s.sent.Load(), time.Since(began).Seconds())
		}
	}
	return "never"
}

// columns are the scenes.
var columns = []struct {
	name  string
	http2 bool
	play  func(*scene) string
}{
	{"HTTP/1.1, 12 idle: silent", false, func(s *scene) string {
		s.pool(12)
		s.Strike(proxytest.Silent)
		return s.recovery()
	}},
	{"HTTP/2: silent", true, func(s *scene) string {
		s.pool(1)
		s.Strike(proxytest.Silent)
		return s.recovery()
	}},
	{"HTTP/2, long polls: dropped", true, func(s *scene) string {
		s.pool(1)
		s.polls(20, new(atomic.Int32))
		s.Strike(proxytest.Dropped)
		return s.recovery()
	}},
	{"HTTP/2, long polls: silent", true, func(s *scene) string {
		s.pool(1)
		s.polls(20, new(atomic.Int32))
		s.Strike(proxytest.Silent)
		return s.recovery()
	}},
	{"every second new one silent", true, func(s *scene) string {
		s.pool(1)
		s.Strike(proxytest.Silent)
		s.StrikeNew(func(n int) proxytest.Fault {
			if n%2 == 0 {
				return proxytest.Silent
			}
			return proxytest.None
		})
		return s.recovery()
	}},
	{"frozen for 4 s: of 300 succeed; connections", true, func(s *scene) string {
		s.pool(1)
		var succeeded atomic.Int32
		var all sync.WaitGroup
		s.Strike(proxytest.Frozen)
		s.StrikeNew(func(int) proxytest.Fault { return proxytest.Frozen })
		time.AfterFunc(4*time.Second, func() {
			s.StrikeNew(nil)
			s.Strike(proxytest.None)
		})
		for range 300 {
			all.Go(func() {
				if s.call(context.Background(), s.url) == nil {
					succeeded.Add(1)
				}
			})
			time.Sleep(20 * time.Millisecond)
		}
		all.Wait()
		return fmt.Sprintf("%d; %d", succeeded.Load(), s.Accepted()-1)
	}},
	{"slow server: other streams lost; connections", true, func(s *scene) string {
		s.pool(1)
		var lost atomic.Int32
		s.polls(20, &lost)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { _ = s.call(context.Background(), s.url+"/slow") })
		}
		all.Wait()
		close(s.release)
		time.Sleep(100 * time.Millisecond)
		return fmt.Sprintf("%d; %d", lost.Load(), s.Accepted()-1)
	}},
}

func main() {
	log.SetFlags(0)
	cells := make([][]string, len(clients))
	for i := range cells {
		cells[i] = make([]string, len(columns))
	}
	for j, column := range columns {
		if strings.Contains(column.name, "dropped") && !proxytest.CanDrop {
			continue
		}
		var all sync.WaitGroup
		for i, client := range clients {
			all.Go(func() {
				s, end := start(column.http2, client.on)
				cells[i][j] = column.play(s)
				end()
			})
		}
		all.Wait()
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "failed calls, attempts, seconds")
	for _, client := range clients {
		fmt.Fprint(w, "\t", client.name)
	}
	for j, column := range columns {
		fmt.Fprint(w, "\n", column.name)
		for i := range clients {
			fmt.Fprint(w, "\t", cells[i][j])
		}
	}
	fmt.Fprintln(w)
	w.Flush()
}
