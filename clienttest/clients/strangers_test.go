package clients_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/PagerDuty/go-pagerduty"
	"github.com/algolia/algoliasearch-client-go/v3/algolia/search"
	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/arangodb/go-driver/v2/arangodb"
	"github.com/arangodb/go-driver/v2/connection"
	"github.com/baidubce/bce-sdk-go/bce"
	"github.com/baidubce/bce-sdk-go/services/bos"
	cloudflarev0 "github.com/cloudflare/cloudflare-go"
	"github.com/go-kivik/kivik/v4"
	"github.com/go-kivik/kivik/v4/couchdb"
	openapi "github.com/go-openapi/runtime"
	openapiclient "github.com/go-openapi/runtime/client"
	"github.com/go-openapi/strfmt"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/mailgun/mailgun-go/v4"
	"github.com/ncw/swift/v2"
	"github.com/okta/okta-sdk-golang/v2/okta"
	ory "github.com/ory/client-go"
	"github.com/ovh/go-ovh/ovh"
	"github.com/scaleway/scaleway-sdk-go/scw"
	"github.com/tencentyun/cos-go-sdk-v5"
	"github.com/vultr/govultr/v3"
	"github.com/weaviate/weaviate-go-client/v4/weaviate"
	"github.com/zmb3/spotify/v2"
	"maunium.net/go/mautrix"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// strangers are clients with many users that no rule is for. Each makes a call to a server at
// base.
var strangers = map[string]func(ctx context.Context, base string) error{
	"aliyun-oss-go-sdk": func(_ context.Context, base string) error {
		c, err := oss.New(base, "x", "x")
		if err != nil {
			return err
		}
		return last(c.ListBuckets())
	},
	"algolia": func(ctx context.Context, base string) error {
		c := search.NewClientWithConfig(search.Configuration{AppID: "x", APIKey: "x", Hosts: []string{"x"}, Requester: rewriting(base)})
		return last(c.InitIndex("x").Search("x", ctx))
	},
	"arangodb": func(ctx context.Context, base string) error {
		c := arangodb.NewClient(connection.NewHttpConnection(connection.DefaultHTTPConfigurationWrapper(connection.NewRoundRobinEndpoints([]string{base}), true)))
		return last(c.Version(ctx))
	},
	"bce-sdk-go": func(_ context.Context, base string) error {
		c, err := bos.NewClient("x", "x", base)
		if err != nil {
			return err
		}
		c.Config.Retry = bce.NewNoRetryPolicy()
		return last(c.ListBuckets())
	},
	"cloudflare-go v0": func(ctx context.Context, base string) error {
		c, err := cloudflarev0.NewWithAPIToken("x", cloudflarev0.BaseURL(base), cloudflarev0.UsingRetryPolicy(0, 0, 0))
		if err != nil {
			return err
		}
		return last(c.UserDetails(ctx))
	},
	"cos-go-sdk": func(ctx context.Context, base string) error {
		u, _ := url.Parse(base)
		c := cos.NewClient(&cos.BaseURL{BucketURL: u, ServiceURL: u}, nil)
		c.Conf.RetryOpt.Count = 1
		_, _, err := c.Service.Get(ctx)
		return err
	},
	"go-openapi": func(_ context.Context, base string) error {
		c := openapiclient.New(strings.TrimPrefix(base, "http://"), "/", []string{"http"})
		return last(c.Submit(&openapi.ClientOperation{ID: "x", Method: "GET", PathPattern: "/x", Params: openapi.ClientRequestWriterFunc(func(openapi.ClientRequest, strfmt.Registry) error { return nil }),
			Reader: openapi.ClientResponseReaderFunc(func(r openapi.ClientResponse, _ openapi.Consumer) (any, error) {
				return nil, openapi.NewAPIError("x", r, r.Code())
			})}))
	},
	"go-ovh": func(ctx context.Context, base string) error {
		c, err := ovh.NewClient(base, "x", "x", "x")
		if err != nil {
			return err
		}
		return c.GetUnAuthWithContext(ctx, "/x", nil)
	},
	"go-pagerduty": func(ctx context.Context, base string) error {
		return last(pagerduty.NewClient("x", pagerduty.WithAPIEndpoint(base)).GetCurrentUserWithContext(ctx, pagerduty.GetCurrentUserOptions{}))
	},
	"govultr": func(ctx context.Context, base string) error {
		c := govultr.NewClient(nil)
		if err := c.SetBaseURL(base); err != nil {
			return err
		}
		c.SetRetryLimit(0)
		_, _, err := c.Account.Get(ctx)
		return err
	},
	"kivik": func(ctx context.Context, base string) error {
		c, err := kivik.New("couch", base, couchdb.OptionNoRequestCompression())
		if err != nil {
			return err
		}
		return last(c.AllDBs(ctx))
	},
	"mailgun-go": func(ctx context.Context, base string) error {
		c := mailgun.NewMailgun("x", "x")
		c.SetAPIBase(base + "/v3")
		return last(c.GetWebhook(ctx, "x"))
	},
	"mautrix": func(ctx context.Context, base string) error {
		c, err := mautrix.NewClient(base, "", "x")
		if err != nil {
			return err
		}
		c.DefaultHTTPRetries = 0
		c.IgnoreRateLimit = true
		return last(c.Whoami(ctx))
	},
	"nomad": func(_ context.Context, base string) error {
		c, err := nomad.NewClient(&nomad.Config{Address: base})
		if err != nil {
			return err
		}
		return last(c.Status().Leader())
	},
	"okta": func(_ context.Context, base string) error {
		ctx, c, err := okta.NewClient(context.Background(), okta.WithOrgUrl(base), okta.WithToken("x"), okta.WithTestingDisableHttpsCheck(true), okta.WithRateLimitMaxRetries(0), okta.WithCache(false))
		if err != nil {
			return err
		}
		_, _, err = c.User.GetUser(ctx, "x")
		return err
	},
	"ory": func(ctx context.Context, base string) error {
		config := ory.NewConfiguration()
		config.Servers = ory.ServerConfigurations{{URL: base}}
		_, _, err := ory.NewAPIClient(config).IdentityAPI.GetIdentity(ctx, "x").Execute()
		return err
	},
	"scaleway-sdk-go": func(_ context.Context, base string) error {
		c, err := scw.NewClient(scw.WithAPIURL(base), scw.WithoutAuth())
		if err != nil {
			return err
		}
		return c.Do(&scw.ScalewayRequest{Method: "GET", Path: "/x"}, nil)
	},
	"spotify": func(ctx context.Context, base string) error {
		return last(spotify.New(http.DefaultClient, spotify.WithBaseURL(base+"/")).CurrentUser(ctx))
	},
	"swift": func(ctx context.Context, base string) error {
		c := &swift.Connection{UserName: "x", ApiKey: "x", AuthUrl: base, AuthVersion: 1, Retries: 1, StorageUrl: base, AuthToken: "x"}
		_, _, err := c.Container(ctx, "x")
		return err
	},
	"weaviate": func(ctx context.Context, base string) error {
		c, err := weaviate.NewClient(weaviate.Config{Scheme: "http", Host: strings.TrimPrefix(base, "http://")})
		if err != nil {
			return err
		}
		return last(c.Schema().Getter().Do(ctx))
	},
}

// bodies are those of the servers that the strangers call, for a status; others understand
// {"message": "x"}.
var bodies = map[string]string{
	"aliyun-oss-go-sdk": "<Error><Code>Whatever</Code><Message>x</Message></Error>",
	"algolia":           `{"message": "x", "status": %d}`,
	"arangodb":          `{"error": true, "code": %d, "errorNum": 1, "errorMessage": "x"}`,
	"govultr":           `{"error": "x", "status": %d}`,
	"mautrix":           `{"errcode": "M_UNKNOWN", "error": "x"}`,
	"okta":              `{"errorCode": "E0000000", "errorSummary": "x"}`,
	"ory":               `{"error": {"code": %d, "message": "x"}}`,
	"spotify":           `{"error": {"status": %d, "message": "x"}}`,
}

// rewriting sends each request to a server.
type rewriting string

func (base rewriting) Request(req *http.Request) (*http.Response, error) {
	u, err := url.Parse(string(base))
	if err != nil {
		return nil, err
	}
	req.URL.Scheme, req.URL.Host = u.Scheme, u.Host
	return http.DefaultClient.Do(req)
}

// TestStrangers measures what is known of errors of clients that nobody has listed: CLIENTS.md has
// the figure. None is repeated that must not be.
func TestStrangers(t *testing.T) {
	statuses := []int{400, 401, 403, 404, 409, 422, 429, 500, 502, 503, 504}
	right, all := 0, 0
	for _, name := range slices.Sorted(maps.Keys(strangers)) {
		var wrong []string
		for _, status := range statuses {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				body := cmp.Or(bodies[name], `{"message": "x"}`)
				if strings.Contains(body, "%d") {
					body = fmt.Sprintf(body, status)
				}
				_, _ = io.WriteString(w, body)
			}))
			err := strangers[name](t.Context(), server.URL)
			server.Close()
			got, want := retry.DefaultClassifier(err), retry.DefaultClassifier(&retryhttp.StatusError{Code: status})
			if all++; got == want {
				right++
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%d is %v, want %v: %T %.120v", status, got, want, err, err))
			if want == retry.Permanent && got != retry.Unknown {
				t.Errorf("%s: %d is %v, and must not be repeated: %v", name, status, got, err)
			}
		}
		t.Logf("%s: %d of %d%s", name, len(statuses)-len(wrong), len(statuses), strings.Join(append([]string{""}, wrong...), "\n\t"))
	}
	figure := fmt.Sprintf("%d of %d (%d %%)", right, all, 100*right/all)
	t.Log(figure)
	page, err := os.ReadFile("../CLIENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), figure) {
		t.Errorf("CLIENTS.md does not say that %s are right", figure)
	}
}
