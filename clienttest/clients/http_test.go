package clients_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	azruntime "github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/cloudflare/cloudflare-go/v6"
	cloudflareoption "github.com/cloudflare/cloudflare-go/v6/option"
	"github.com/cloudflare/cloudflare-go/v6/zones"
	"github.com/digitalocean/godo"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-github/v72/github"
	consul "github.com/hashicorp/consul/api"
	vault "github.com/hashicorp/vault/api"
	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/olivere/elastic/v7"
	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/goretry/retry"
)

// A client makes one call with its own retries off. hc sends everything to the
// server.
type client struct {
	name  string
	hears bool // its errors hold the headers, or what they say
	call  func(ctx context.Context, base string, hc *http.Client) error
	body  func(status int) string // of the server's answer; nil: one that most understand
	// What its errors cannot say, by case.
	wrong map[string]retry.Class
	why   string
}

func last[T any](_ T, err error) error { return err }

var clients = []client{
	{name: "net/http's status in an error of one's own", call: func(ctx context.Context, base string, hc *http.Client) error {
		resp, err := get(ctx, base, hc)
		if err != nil {
			return err
		}
		resp.Body.Close()
		return &httpError{resp.StatusCode}
	}},
	{name: "azcore", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		p := azruntime.NewPipeline("x", "v1", azruntime.PipelineOptions{}, &policy.ClientOptions{Transport: hc, Retry: policy.RetryOptions{MaxRetries: -1}})
		req, err := azruntime.NewRequest(ctx, http.MethodGet, base)
		if err != nil {
			return err
		}
		resp, err := p.Do(req)
		if err != nil {
			return err
		}
		var _ azcore.TokenCredential
		return azruntime.NewResponseError(resp)
	}},
	{name: "anthropic-sdk-go", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		c := anthropic.NewClient(anthropicoption.WithBaseURL(base), anthropicoption.WithHTTPClient(hc), anthropicoption.WithMaxRetries(0), anthropicoption.WithAPIKey("x"))
		return last(c.Models.Get(ctx, "x", anthropic.ModelGetParams{}))
	}},
	{name: "cloudflare-go", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		c := cloudflare.NewClient(cloudflareoption.WithBaseURL(base), cloudflareoption.WithHTTPClient(hc), cloudflareoption.WithMaxRetries(0), cloudflareoption.WithAPIToken("x"))
		return last(c.Zones.Get(ctx, zones.ZoneGetParams{ZoneID: cloudflare.F("x")}))
	}},
	{name: "godo", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		c, err := godo.New(hc, godo.SetBaseURL(base+"/"))
		if err != nil {
			return err
		}
		_, _, err = c.Account.Get(ctx)
		return err
	}},
	{name: "go-github", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		c := github.NewClient(hc)
		c.BaseURL, _ = url.Parse(base + "/")
		_, _, err := c.Users.Get(ctx, "x")
		return err
	}},
	{name: "opensearch-go", call: func(ctx context.Context, base string, hc *http.Client) error {
		c, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{Addresses: []string{base}, Transport: hc.Transport, DisableRetry: true}})
		if err != nil {
			return err
		}
		ctx, cancel := within(ctx, hc)
		defer cancel()
		return last(c.Info(ctx, nil))
	}},
	{name: "olivere/elastic", call: func(ctx context.Context, base string, hc *http.Client) error {
		c, err := elastic.NewSimpleClient(elastic.SetURL(base), elastic.SetHttpClient(hc))
		if err != nil {
			return err
		}
		return last(c.Get().Index("i").Id("1").Do(ctx))
	}},
	{name: "consul", call: func(ctx context.Context, base string, hc *http.Client) error {
		c, err := consul.NewClient(&consul.Config{Address: base, HttpClient: hc})
		if err != nil {
			return err
		}
		return last(c.Agent().Self())
	}},
	{name: "vault", call: func(ctx context.Context, base string, hc *http.Client) error {
		config := vault.DefaultConfig()
		config.Address, config.HttpClient, config.MaxRetries = base, hc, 0
		c, err := vault.NewClient(config)
		if err != nil {
			return err
		}
		c.SetMaxRetries(0)
		return last(c.Logical().WriteWithContext(ctx, "secret/x", nil))
	}},
	{name: "minio-go", call: func(ctx context.Context, base string, hc *http.Client) error {
		c, err := minio.New(strings.TrimPrefix(base, "http://"), &minio.Options{Creds: credentials.NewStaticV4("x", "x", ""), Transport: hc.Transport, MaxRetries: 1})
		if err != nil {
			return err
		}
		ctx, cancel := within(ctx, hc)
		defer cancel()
		return last(c.ListBuckets(ctx))
	}, body: func(int) string { return `<Error><Code>Whatever</Code><Message>x</Message></Error>` }},
	{name: "go-containerregistry", call: func(ctx context.Context, base string, hc *http.Client) error {
		registry, err := name.NewRegistry(strings.TrimPrefix(base, "http://"), name.Insecure)
		if err != nil {
			return err
		}
		ctx, cancel := within(ctx, hc)
		defer cancel()
		return last(remote.Catalog(ctx, registry, remote.WithTransport(hc.Transport), remote.WithRetryStatusCodes(),
			remote.WithRetryPredicate(func(error) bool { return false })))
	}},
	{name: "influxdb-client-go", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		c := influxdb2.NewClientWithOptions(base, "x", influxdb2.DefaultOptions().SetHTTPClient(hc))
		defer c.Close()
		return last(c.QueryAPI("x").Query(ctx, "x"))
	}},
	{name: "connect", call: func(ctx context.Context, base string, hc *http.Client) error {
		c := connect.NewClient[emptypb.Empty, emptypb.Empty](hc, base+"/x.Y/Z")
		return last(c.CallUnary(ctx, connect.NewRequest(&emptypb.Empty{})))
	}, body: func(int) string { return "no error of Connect" },
		wrong: map[string]retry.Class{"400": transient, "400, with a hint": transient, "409": transient, "409, with a hint": transient,
			"429": transient, "429, with a hint": transient, "504": transient, "504, with a hint": transient},
		why: "a proxy's 400 becomes internal, 409 unknown, 429 and 504 unavailable"},
}

func b2i(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// httpError has the method that DefaultClassifier has always known.
type httpError struct{ code int }

func (e *httpError) Error() string   { return http.StatusText(e.code) }
func (e *httpError) StatusCode() int { return e.code }

func get(ctx context.Context, base string, hc *http.Client) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base, nil)
	if err != nil {
		return nil, err
	}
	return hc.Do(req)
}

// within gives a client that takes no http.Client its timeout.
func within(ctx context.Context, hc *http.Client) (context.Context, context.CancelFunc) {
	if hc.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, hc.Timeout)
}

// toServer sends every request to one host.
type toServer struct {
	host string
	rt   http.RoundTripper
}

func (t *toServer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = "http", t.host
	return t.rt.RoundTrip(req)
}

// answer is what the server does with a request.
type answer struct {
	name   string
	status int    // 0 if there is none
	hinted bool   // Retry-After says 7 s
	fault  string // "refused", "cut", "timeout"
}

func answers() (all []answer) {
	for _, status := range []int{400, 401, 403, 404, 408, 409, 429, 500, 502, 503, 504} {
		all = append(all, answer{name: fmt.Sprint(status), status: status},
			answer{name: fmt.Sprintf("%d, with a hint", status), status: status, hinted: true})
	}
	for _, fault := range []string{"refused", "cut", "timeout"} {
		all = append(all, answer{name: fault, fault: fault})
	}
	return all
}

// want returns the class that an error should have after a, and the wait.
func (c *client) want(a answer) (class retry.Class, hint time.Duration) {
	heard := a.hinted && c.hears
	if heard {
		hint = 7 * time.Second
	}
	switch {
	case a.fault == "timeout":
		return timedOut, 0
	case a.fault != "":
		return transient, 0 // nobody can say that a request was not sent: http.Client may have followed a redirect
	case a.status == 429, a.status == 403 && heard:
		return throttled, hint
	case a.status == 504:
		return timedOut, hint
	case a.status == 408, a.status >= 500:
		return transient, hint
	}
	return permanent, 0
}

// Of all answers to real clients, at least 95 of 100 are judged right. The others are
// listed with the client, and why.
func TestClients(t *testing.T) {
	total, wrong := 0, 0
	var mu sync.Mutex
	t.Run("all", func(t *testing.T) {
		for _, c := range clients {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				for _, a := range answers() {
					err := c.ask(t, a)
					if err == nil {
						t.Errorf("%s: no error", a.name)
						continue
					}
					class, hint := retry.Policy{}.Judge(err)
					if class == retry.Unprocessed && a.fault == "refused" {
						class = transient // it is certain that nothing was sent, where the client shows it
					}
					right, wait := c.want(a)
					want, listed := c.wrong[a.name]
					if !listed {
						want = right
					}
					mu.Lock()
					total, wrong = total+1, wrong+b2i(want != right)
					mu.Unlock()
					if class != want {
						t.Errorf("%s: %T is %v, want %v: %v", a.name, err, class, want, err)
					} else if class != permanent && hint != wait && !listed {
						t.Errorf("%s: %T asks to wait for %v, want %v: %v", a.name, err, hint, wait, err)
					}
				}
			})
		}
	})
	t.Logf("%d clients, %d answers, %d judged wrong: %.1f %% right", len(clients), total, wrong, 100-100*float64(wrong)/float64(total))
	if wrong*20 > total {
		t.Error("fewer than 95 of 100 are judged right")
	}
}

// ask has the client ask a server that gives the answer a.
func (c *client) ask(t *testing.T, a answer) error {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch a.fault {
		case "cut":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
			return
		case "timeout":
			select {
			case <-r.Context().Done(): // which net/http does not see before the body is read
			case <-over:
			}
			return
		}
		if a.hinted {
			w.Header().Set("Retry-After", "7")
		}
		body := fmt.Sprintf(`{"error": {"code": %[1]d, "message": "x", "type": "x", "reason": "x", "root_cause": []}, "status": %[1]d, "code": %[1]d, "message": "x"}`, a.status)
		if c.body != nil {
			body = c.body(a.status)
		}
		kind := "application/json"
		if strings.HasPrefix(body, "<") {
			kind = "application/xml"
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	base := server.URL
	if a.fault == "refused" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		base = "http://" + l.Addr().String()
		l.Close()
	}
	hc := &http.Client{Transport: &toServer{strings.TrimPrefix(base, "http://"), &http.Transport{DisableKeepAlives: true}}}
	if a.fault == "timeout" {
		hc.Timeout = 100 * time.Millisecond
	}
	defer close(over)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("the client hangs"))
	defer cancel()
	return c.call(ctx, base, hc)
}
