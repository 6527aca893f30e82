package clients_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	azruntime "github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sso"
	"github.com/bwmarrin/discordgo"
	"github.com/cloudflare/cloudflare-go/v6"
	cloudflareoption "github.com/cloudflare/cloudflare-go/v6/option"
	"github.com/cloudflare/cloudflare-go/v6/zones"
	"github.com/digitalocean/godo"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v9/typedapi/core/info"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-github/v72/github"
	consul "github.com/hashicorp/consul/api"
	vault "github.com/hashicorp/vault/api"
	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	"github.com/linode/linodego"
	"github.com/meilisearch/meilisearch-go"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	moby "github.com/moby/moby/client"
	"github.com/olivere/elastic/v7"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	prometheusapi "github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	goopenai "github.com/sashabaranov/go-openai"
	"github.com/slack-go/slack"
	"github.com/stripe/stripe-go/v83"
	twilio "github.com/twilio/twilio-go/client"
	twirp "github.com/twitchtv/twirp/example"
	gitlab "gitlab.com/gitlab-org/api/client-go"
	"golang.org/x/crypto/acme"
	"golang.org/x/oauth2"
	google "google.golang.org/api/oauth2/v2"
	"google.golang.org/protobuf/types/known/emptypb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/goretry/retry"
)

// A client makes one call with its own retries off. hc sends everything to the
// server.
type client struct {
	name      string
	hears     bool // its errors hold the headers, or what they say
	hearsOnly int  // the one status with which it hears; 0 for all
	call      func(ctx context.Context, base string, hc *http.Client) error
	body      func(answer) string // of the server's answer; nil: one that most understand
	ignores   bool                // the context, for it takes none
	requests  int                 // that a call without retries makes at most; 0 for one
	// What its errors cannot say: the classes they have instead, by answer, and why.
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
		background, stop := context.WithCancel(ctx)
		stop() // else it sends health checks that no call of ours makes
		c, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{
			Addresses: []string{base}, Transport: hc.Transport, DisableRetry: true, Context: background,
		}})
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
		_, _, err = c.Catalog().Nodes(new(consul.QueryOptions).WithContext(ctx))
		return err
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
	}, body: func(answer) string { return `<Error><Code>Whatever</Code><Message>x</Message></Error>` }},
	{name: "go-containerregistry", requests: 2 /* HTTPS, then HTTP */, call: func(ctx context.Context, base string, hc *http.Client) error {
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
	}, body: func(answer) string { return "no error of Connect" },
		wrong: map[string]retry.Class{"400": unknown, "400, with a hint": unknown, "408": unknown, "408, with a hint": unknown,
			"409": unknown, "409, with a hint": unknown, "429": transient, "429, with a hint": transient,
			"500": unknown, "500, with a hint": unknown, "504": transient, "504, with a hint": transient},
		why: "what is not Connect's becomes a code of the client's own: 400 internal, 408, 409 and 500 unknown, 429 and 504 unavailable"},
	{name: "go-openai", call: func(ctx context.Context, base string, hc *http.Client) error {
		config := goopenai.DefaultConfig("x")
		config.BaseURL, config.HTTPClient = base, hc
		return last(goopenai.NewClientWithConfig(config).ListModels(ctx))
	}},
	{name: "go-openai, of a proxy's page", call: func(ctx context.Context, base string, hc *http.Client) error {
		config := goopenai.DefaultConfig("x")
		config.BaseURL, config.HTTPClient = base, hc
		return last(goopenai.NewClientWithConfig(config).ListModels(ctx))
	}, body: func(answer) string { return "<html>" }},
	{name: "openai-go", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		c := openai.NewClient(openaioption.WithBaseURL(base), openaioption.WithHTTPClient(hc), openaioption.WithMaxRetries(0), openaioption.WithAPIKey("x"))
		return last(c.Models.Get(ctx, "x"))
	}},
	{name: "go-elasticsearch, typed", call: func(ctx context.Context, base string, hc *http.Client) error {
		u, err := url.Parse(base)
		if err != nil {
			return err
		}
		tp, err := elastictransport.NewClient(elastictransport.WithURLs(u), elastictransport.WithTransport(hc.Transport), elastictransport.WithDisableRetry())
		if err != nil {
			return err
		}
		ctx, cancel := within(ctx, hc)
		defer cancel()
		return last(info.New(tp).Do(ctx))
	}},
	{name: "stripe-go", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{URL: &base, HTTPClient: hc, MaxNetworkRetries: stripe.Int64(0),
			LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull}})
		return last(stripe.NewClient("sk_test_x", stripe.WithBackends(backends)).V1Balance.Retrieve(ctx, nil))
	}, body: func(answer) string { return `{"error": {"type": "api_error", "code": "x", "message": "x"}}` }},
	{name: "slack", hears: true, hearsOnly: 429, call: func(ctx context.Context, base string, hc *http.Client) error {
		return last(slack.New("x", slack.OptionAPIURL(base+"/"), slack.OptionHTTPClient(hc)).AuthTestContext(ctx))
	}},
	{name: "gitlab client-go", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		c, err := gitlab.NewClient("x", gitlab.WithBaseURL(base), gitlab.WithHTTPClient(hc), gitlab.WithoutRetries())
		if err != nil {
			return err
		}
		_, _, err = c.Version.GetVersion(gitlab.WithContext(ctx))
		return err
	}, wrong: map[string]retry.Class{"404": unknown, "404, with a hint": unknown}, why: "a 404 is gitlab.ErrNotFound, a plain value"},
	{name: "twilio-go", ignores: true, call: func(_ context.Context, base string, hc *http.Client) error {
		c := &twilio.Client{Credentials: twilio.NewCredentials("x", "x"), HTTPClient: hc}
		return last(c.SendRequest(http.MethodGet, base, nil, nil))
	}},
	{name: "linodego", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		c := linodego.NewClient(hc)
		c.SetBaseURL(base).SetRetryCount(0)
		return last(c.GetProfile(ctx))
	}, body: func(answer) string { return `{"errors": [{"reason": "x"}]}` },
		wrong: map[string]retry.Class{"timeout": transient}, why: "its error holds the text of its cause, and does not unwrap to it"},
	{name: "meilisearch-go", call: func(ctx context.Context, base string, hc *http.Client) error {
		return last(meilisearch.New(base, meilisearch.WithCustomClient(hc), meilisearch.DisableRetries()).HealthWithContext(ctx))
	}, wrong: map[string]retry.Class{"timeout": transient}, why: "its error does not unwrap to its cause"},
	{name: "oauth2", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		c := oauth2.Config{ClientID: "x", Endpoint: oauth2.Endpoint{TokenURL: base, AuthStyle: oauth2.AuthStyleInParams}}
		return last(c.PasswordCredentialsToken(context.WithValue(ctx, oauth2.HTTPClient, hc), "x", "x"))
	}},
	{name: "acme", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		c := &acme.Client{DirectoryURL: base, HTTPClient: hc, RetryBackoff: func(int, *http.Request, *http.Response) time.Duration { return -1 }}
		return last(c.Discover(ctx))
	}},
	{name: "twirp", call: func(ctx context.Context, base string, hc *http.Client) error {
		return last(twirp.NewHaberdasherJSONClient(base, hc).MakeHat(ctx, &twirp.Size{}))
	}, body: func(answer) string { return "no error of Twirp" },
		wrong: map[string]retry.Class{"408": permanent, "408, with a hint": permanent, "500": permanent, "500, with a hint": permanent,
			"504": transient, "504, with a hint": transient},
		why: "what is not Twirp's becomes a code of the client's own: 408 and 500 unknown, 504 unavailable"},
	{name: "googleapi", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		//lint:ignore SA1019 its successor comes with all of Google's ways to find credentials
		c, err := google.New(hc)
		if err != nil {
			return err
		}
		c.BasePath = base + "/"
		return last(c.Tokeninfo().Context(ctx).Do())
	}},
	{name: "moby client", requests: 3 /* two find the version of the API */, call: func(ctx context.Context, base string, hc *http.Client) error {
		c, err := moby.New(moby.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: hc.Timeout}), moby.WithHost("tcp"+strings.TrimPrefix(base, "http")), moby.WithScheme("http"))
		if err != nil {
			return err
		}
		defer c.Close()
		return last(c.Info(ctx, moby.InfoOptions{}))
	}},
	{name: "Kubernetes client-go", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		group := schema.GroupVersion{Version: "v1"}
		scheme := runtime.NewScheme()
		metav1.AddToGroupVersion(scheme, group)
		config := &rest.Config{Host: base, ContentConfig: rest.ContentConfig{GroupVersion: &group,
			NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion()}}
		c, err := rest.RESTClientForConfigAndClient(config, hc)
		if err != nil {
			return err
		}
		return c.Post().AbsPath("/api/v1/namespaces").MaxRetries(0).Do(ctx).Error()
	}},
	{name: "AWS SDK v2", call: func(ctx context.Context, base string, hc *http.Client) error {
		c := sso.New(sso.Options{BaseEndpoint: &base, Region: "x", HTTPClient: hc, Retryer: aws.NopRetryer{}})
		return last(c.ListAccounts(ctx, &sso.ListAccountsInput{AccessToken: aws.String("x")}))
	}},
	{name: "discordgo", hears: true, call: func(ctx context.Context, base string, hc *http.Client) error {
		s, err := discordgo.New("Bot x")
		if err != nil {
			return err
		}
		s.Client, s.MaxRestRetries, s.ShouldRetryOnRateLimit = hc, 0, false
		return last(s.User("1", discordgo.WithContext(ctx)))
	}, body: func(a answer) string {
		if a.hinted {
			return `{"message": "x", "retry_after": 7}`
		}
		return `{"message": "x"}`
	}, wrong: map[string]retry.Class{"502": unknown, "502, with a hint": unknown}, why: "a 502 is a plain error, Exceeded Max retries"},
	{name: "prometheus", requests: 2 /* POST, then GET where POST is forbidden */, call: func(ctx context.Context, base string, hc *http.Client) error {
		c, err := prometheusapi.NewClient(prometheusapi.Config{Address: base, Client: hc})
		if err != nil {
			return err
		}
		_, _, _, err = prometheus.NewAPI(c).Query(ctx, "up", time.Time{})
		return err
	}, body: func(answer) string { return `{"status": "error", "errorType": "bad_data", "error": "x"}` },
		wrong: map[string]retry.Class{"401": unknown, "401, with a hint": unknown, "403": unknown, "403, with a hint": unknown,
			"404": unknown, "404, with a hint": unknown, "408": unknown, "408, with a hint": unknown, "409": unknown, "409, with a hint": unknown,
			"429": unknown, "429, with a hint": unknown, "504": transient, "504, with a hint": transient},
		why: "client_error is all of 4xx, and server_error all of 5xx"},
}
