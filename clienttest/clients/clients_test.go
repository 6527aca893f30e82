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
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
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
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-github/v72/github"
	consul "github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-retryablehttp"
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
	"google.golang.org/genai"
	"google.golang.org/protobuf/types/known/emptypb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/goretry/retry"
)

// A client makes one call: once with its own retries off, as docs/clients.md has it, else
// with its default configuration. hc sends everything to the server.
type client struct {
	name      string // as docs/clients.md has it
	module    string // of which docs/clients.md has the version; "" if it is not there
	off       string // how docs/clients.md turns its own retries off; "" if it has none
	hears     bool   // its errors hold the headers, or what they say
	hearsOnly int    // the one status with which it hears; 0 for all

	statuses map[int]retry.Class // what its vendor says of a status that means something else elsewhere
	call     func(ctx context.Context, base string, hc *http.Client, once bool) error
	body     func(answer) string // of the server's answer; nil: one that most understand
	ignores  bool                // the context, for it takes none
	most     int                 // requests that a call without retries makes at most; 0 for one
	// What its errors cannot say: the classes they have instead, by answer, and why.
	wrong map[string]retry.Class
	why   string
}

func last[T any](_ T, err error) error { return err }

var clients = []client{
	{name: "net/http's status in an error of one's own", call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		resp, err := get(ctx, base, hc)
		if err != nil {
			return err
		}
		resp.Body.Close()
		return &httpError{resp.StatusCode}
	}},
	{name: "azcore", module: "github.com/Azure/azure-sdk-for-go/sdk/azcore", off: "`policy.RetryOptions{MaxRetries: -1}`", hears: true, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		options := &policy.ClientOptions{Transport: hc}
		if once {
			options.Retry = policy.RetryOptions{MaxRetries: -1}
		}
		return azcoreCall(ctx, http.MethodGet, base, options)
	}},
	{name: "anthropic-sdk-go", module: "github.com/anthropics/anthropic-sdk-go", off: "`option.WithMaxRetries(0)`", hears: true, statuses: map[int]retry.Class{409: transient}, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		options := []anthropicoption.RequestOption{anthropicoption.WithBaseURL(base), anthropicoption.WithHTTPClient(hc), anthropicoption.WithAPIKey("x")}
		if once {
			options = append(options, anthropicoption.WithMaxRetries(0))
		}
		c := anthropic.NewClient(options...)
		return last(c.Models.Get(ctx, "x", anthropic.ModelGetParams{}))
	}},
	{name: "cloudflare-go", module: "github.com/cloudflare/cloudflare-go/v6", off: "`option.WithMaxRetries(0)`", hears: true, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		options := []cloudflareoption.RequestOption{cloudflareoption.WithBaseURL(base), cloudflareoption.WithHTTPClient(hc), cloudflareoption.WithAPIToken("x")}
		if once {
			options = append(options, cloudflareoption.WithMaxRetries(0))
		}
		c := cloudflare.NewClient(options...)
		return last(c.Zones.Get(ctx, zones.ZoneGetParams{ZoneID: cloudflare.F("x")}))
	}},
	{name: "godo", module: "github.com/digitalocean/godo", off: "`New` or `NewClient`, not `NewFromToken`", hears: true, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		c := godo.NewClient(hc)
		if !once {
			c = godo.NewFromToken("x")
			c.HTTPClient.Transport.(*oauth2.Transport).Base.(*retryablehttp.RoundTripper).Client.HTTPClient = hc
		}
		c.BaseURL, _ = url.Parse(base + "/")
		_, _, err := c.Account.Get(ctx)
		return err
	}},
	{name: "go-github", module: "github.com/google/go-github/v72", hears: true, call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		c := github.NewClient(hc)
		c.BaseURL, _ = url.Parse(base + "/")
		_, _, err := c.Users.Get(ctx, "x")
		return err
	}},
	{name: "opensearch-go", module: "github.com/opensearch-project/opensearch-go/v4", off: "`DisableRetry: true`", call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		background, stop := context.WithCancel(ctx)
		stop() // else it sends health checks that no call of ours makes
		c, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{
			Addresses: []string{base}, Transport: hc.Transport, DisableRetry: once, Context: background,
		}})
		if err != nil {
			return err
		}
		ctx, cancel := within(ctx, hc)
		defer cancel()
		return last(c.Info(ctx, nil))
	}},
	{name: "olivere/elastic", module: "github.com/olivere/elastic/v7", call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		c, err := elastic.NewSimpleClient(elastic.SetURL(base), elastic.SetHttpClient(hc))
		if err != nil {
			return err
		}
		return last(c.Get().Index("i").Id("1").Do(ctx))
	}},
	{name: "consul api", module: "github.com/hashicorp/consul/api", call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		c, err := consul.NewClient(&consul.Config{Address: base, HttpClient: hc})
		if err != nil {
			return err
		}
		_, _, err = c.Catalog().Nodes(new(consul.QueryOptions).WithContext(ctx))
		return err
	}},
	{name: "vault api", module: "github.com/hashicorp/vault/api", off: "`Config.MaxRetries = 0`", call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		config := vault.DefaultConfig()
		config.Address, config.HttpClient = base, hc
		if once {
			config.MaxRetries = 0
		}
		c, err := vault.NewClient(config)
		if err != nil {
			return err
		}
		return last(c.Logical().WriteWithContext(ctx, "secret/x", nil))
	}},
	{name: "minio-go", module: "github.com/minio/minio-go/v7", off: "`Options.MaxRetries: 1`", call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		options := &minio.Options{Creds: credentials.NewStaticV4("x", "x", ""), Transport: hc.Transport}
		if once {
			options.MaxRetries = 1
		}
		c, err := minio.New(strings.TrimPrefix(base, "http://"), options)
		if err != nil {
			return err
		}
		ctx, cancel := within(ctx, hc)
		defer cancel()
		return last(c.ListBuckets(ctx))
	}, body: func(answer) string { return `<Error><Code>Whatever</Code><Message>x</Message></Error>` }},
	{name: "go-containerregistry", module: "github.com/google/go-containerregistry", off: "`remote.WithRetryStatusCodes()` and `remote.WithRetryPredicate`", most: 2 /* HTTPS, then HTTP */, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		registry, err := name.NewRegistry(strings.TrimPrefix(base, "http://"), name.Insecure)
		if err != nil {
			return err
		}
		ctx, cancel := within(ctx, hc)
		defer cancel()
		options := []remote.Option{remote.WithTransport(hc.Transport)}
		if once {
			options = append(options, remote.WithRetryStatusCodes(), remote.WithRetryPredicate(func(error) bool { return false }))
		}
		return last(remote.Catalog(ctx, registry, options...))
	}},
	{name: "influxdb-client-go", module: "github.com/influxdata/influxdb-client-go/v2", hears: true, call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		c := influxdb2.NewClientWithOptions(base, "x", influxdb2.DefaultOptions().SetHTTPClient(hc))
		defer c.Close()
		return last(c.QueryAPI("x").Query(ctx, "x"))
	}},
	{name: "Connect", module: "connectrpc.com/connect", call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		c := connect.NewClient[emptypb.Empty, emptypb.Empty](hc, base+"/x.Y/Z")
		return last(c.CallUnary(ctx, connect.NewRequest(&emptypb.Empty{})))
	}, body: func(answer) string { return "no error of Connect" },
		wrong: map[string]retry.Class{"400": unknown, "400, with a hint": unknown, "408": unknown, "408, with a hint": unknown,
			"409": unknown, "409, with a hint": unknown, "429": transient, "429, with a hint": transient,
			"500": unknown, "500, with a hint": unknown, "504": transient, "504, with a hint": transient},
		why: "what is not Connect's becomes a code of the client's own: 400 internal, 408, 409 and 500 unknown, 429 and 504 unavailable"},
	{name: "go-openai", module: "github.com/sashabaranov/go-openai", call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		config := goopenai.DefaultConfig("x")
		config.BaseURL, config.HTTPClient = base, hc
		return last(goopenai.NewClientWithConfig(config).ListModels(ctx))
	}},
	{name: "go-openai, of a proxy's page", call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		config := goopenai.DefaultConfig("x")
		config.BaseURL, config.HTTPClient = base, hc
		return last(goopenai.NewClientWithConfig(config).ListModels(ctx))
	}, body: func(answer) string { return "<html>" }},
	{name: "openai-go", module: "github.com/openai/openai-go/v3", off: "`option.WithMaxRetries(0)`", hears: true, statuses: map[int]retry.Class{409: transient, 503: throttled}, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		options := []openaioption.RequestOption{openaioption.WithBaseURL(base), openaioption.WithHTTPClient(hc), openaioption.WithAPIKey("x")}
		if once {
			options = append(options, openaioption.WithMaxRetries(0))
		}
		c := openai.NewClient(options...)
		return last(c.Models.Get(ctx, "x"))
	}},
	{name: "go-elasticsearch", module: "github.com/elastic/go-elasticsearch/v9", off: "`DisableRetry: true`", call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		u, err := url.Parse(base)
		if err != nil {
			return err
		}
		options := []elastictransport.Option{elastictransport.WithURLs(u), elastictransport.WithTransport(hc.Transport)}
		if once {
			options = append(options, elastictransport.WithDisableRetry())
		}
		tp, err := elastictransport.NewClient(options...)
		if err != nil {
			return err
		}
		ctx, cancel := within(ctx, hc)
		defer cancel()
		return last(info.New(tp).Do(ctx))
	}},
	{name: "stripe-go", module: "github.com/stripe/stripe-go/v83", off: "`BackendConfig.MaxNetworkRetries: stripe.Int64(0)`", hears: true, statuses: map[int]retry.Class{409: transient}, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		config := &stripe.BackendConfig{URL: &base, HTTPClient: hc, LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull}}
		if once {
			config.MaxNetworkRetries = stripe.Int64(0)
		}
		return last(stripe.NewClient("sk_test_x", stripe.WithBackends(stripe.NewBackendsWithConfig(config))).V1Balance.Retrieve(ctx, nil))
	}, body: func(answer) string { return `{"error": {"type": "api_error", "code": "x", "message": "x"}}` }},
	{name: "slack", module: "github.com/slack-go/slack", hears: true, hearsOnly: 429, call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		return last(slack.New("x", slack.OptionAPIURL(base+"/"), slack.OptionHTTPClient(hc)).AuthTestContext(ctx))
	}},
	{name: "gitlab client-go", module: "gitlab.com/gitlab-org/api/client-go", off: "`gitlab.WithoutRetries()`", hears: true, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		options := []gitlab.ClientOptionFunc{gitlab.WithBaseURL(base), gitlab.WithHTTPClient(hc)}
		if once {
			options = append(options, gitlab.WithoutRetries())
		}
		c, err := gitlab.NewClient("x", options...)
		if err != nil {
			return err
		}
		_, _, err = c.Version.GetVersion(gitlab.WithContext(ctx))
		return err
	}, wrong: map[string]retry.Class{"404": unknown, "404, with a hint": unknown}, why: "a 404 is gitlab.ErrNotFound, a plain value"},
	{name: "twilio-go", module: "github.com/twilio/twilio-go", ignores: true, call: func(_ context.Context, base string, hc *http.Client, _ bool) error {
		c := &twilio.Client{Credentials: twilio.NewCredentials("x", "x"), HTTPClient: hc}
		return last(c.SendRequest(http.MethodGet, base, nil, nil))
	}},
	{name: "linodego", module: "github.com/linode/linodego", off: "`SetRetryCount(0)`", hears: true, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		c := linodego.NewClient(hc)
		c.SetBaseURL(base)
		if once {
			c.SetRetryCount(0)
		}
		return last(c.GetProfile(ctx))
	}, body: func(answer) string { return `{"errors": [{"reason": "x"}]}` },
		wrong: map[string]retry.Class{"timeout": transient}, why: "its error holds the text of its cause, and does not unwrap to it"},
	{name: "meilisearch-go", module: "github.com/meilisearch/meilisearch-go", off: "`meilisearch.DisableRetries()`", call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		options := []meilisearch.Option{meilisearch.WithCustomClient(hc)}
		if once {
			options = append(options, meilisearch.DisableRetries())
		}
		return last(meilisearch.New(base, options...).HealthWithContext(ctx))
	}, wrong: map[string]retry.Class{"timeout": transient}, why: "its error does not unwrap to its cause"},
	{name: "oauth2", module: "golang.org/x/oauth2", hears: true, call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		c := oauth2.Config{ClientID: "x", Endpoint: oauth2.Endpoint{TokenURL: base, AuthStyle: oauth2.AuthStyleInParams}}
		return last(c.PasswordCredentialsToken(context.WithValue(ctx, oauth2.HTTPClient, hc), "x", "x"))
	}},
	{name: "acme", module: "golang.org/x/crypto", off: "`RetryBackoff` that returns -1", hears: true, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		c := &acme.Client{DirectoryURL: base, HTTPClient: hc}
		if once {
			c.RetryBackoff = func(int, *http.Request, *http.Response) time.Duration { return -1 }
		}
		return last(c.Discover(ctx))
	}},
	{name: "Twirp", module: "github.com/twitchtv/twirp", call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		return last(twirp.NewHaberdasherJSONClient(base, hc).MakeHat(ctx, &twirp.Size{}))
	}, body: func(answer) string { return "no error of Twirp" },
		wrong: map[string]retry.Class{"408": permanent, "408, with a hint": permanent, "500": permanent, "500, with a hint": permanent,
			"504": transient, "504, with a hint": transient},
		why: "what is not Twirp's becomes a code of the client's own: 408 and 500 unknown, 504 unavailable"},
	{name: "googleapi", module: "google.golang.org/api", hears: true, call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		//lint:ignore SA1019 its successor comes with all of Google's ways to find credentials
		c, err := google.New(hc)
		if err != nil {
			return err
		}
		c.BasePath = base + "/"
		return last(c.Tokeninfo().Context(ctx).Do())
	}},
	{name: "moby client", module: "github.com/moby/moby/client", most: 3 /* two find the version of the API */, call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		options := []moby.Opt{moby.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: hc.Timeout}), moby.WithHost("tcp" + strings.TrimPrefix(base, "http")), moby.WithScheme("http")}
		if dial := hc.Transport.(*toServer).rt.(*http.Transport).DialContext; dial != nil {
			options = append(options, moby.WithDialContext(dial))
		}
		c, err := moby.New(options...)
		if err != nil {
			return err
		}
		defer c.Close()
		return last(c.Info(ctx, moby.InfoOptions{}))
	}},
	{name: "Kubernetes client-go", module: "k8s.io/client-go", off: "`Request.MaxRetries(0)`; typed clients have no setting", hears: true, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		group := schema.GroupVersion{Version: "v1"}
		scheme := runtime.NewScheme()
		metav1.AddToGroupVersion(scheme, group)
		config := &rest.Config{Host: base, ContentConfig: rest.ContentConfig{GroupVersion: &group,
			NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion()}}
		c, err := rest.RESTClientForConfigAndClient(config, hc)
		if err != nil {
			return err
		}
		request := c.Post().AbsPath("/api/v1/namespaces")
		if once {
			request.MaxRetries(0)
		}
		return request.Do(ctx).Error()
	}},
	{name: "AWS SDK v2", module: "github.com/aws/aws-sdk-go-v2", hears: true, off: "`config.WithRetryer` with `aws.NopRetryer`", call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		options := sso.Options{BaseEndpoint: &base, Region: "x", HTTPClient: hc}
		if once {
			options.Retryer = aws.NopRetryer{}
		}
		c := sso.New(options)
		return last(c.ListAccounts(ctx, &sso.ListAccountsInput{AccessToken: aws.String("x")}))
	}},
	{name: "discordgo", module: "github.com/bwmarrin/discordgo", off: "`MaxRestRetries = 0`, `ShouldRetryOnRateLimit = false`", hears: true, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		s, err := discordgo.New("Bot x")
		if err != nil {
			return err
		}
		s.Client = hc
		if once {
			s.MaxRestRetries, s.ShouldRetryOnRateLimit = 0, false
		}
		return last(s.User("1", discordgo.WithContext(ctx)))
	}, body: func(a answer) string {
		if a.hinted {
			return `{"message": "x", "retry_after": 7}`
		}
		return `{"message": "x"}`
	}, wrong: map[string]retry.Class{"502": unknown, "502, with a hint": unknown}, why: "a 502 is a plain error, Exceeded Max retries"},
	{name: "prometheus api", module: "github.com/prometheus/client_golang", most: 2 /* POST, then GET where POST is forbidden */, call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
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
	{name: "azblob", module: "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob", off: "`policy.RetryOptions{MaxRetries: -1}`", hears: true, call: func(ctx context.Context, base string, hc *http.Client, once bool) error {
		options := &azblob.ClientOptions{ClientOptions: policy.ClientOptions{Transport: hc}}
		if once {
			options.Retry = policy.RetryOptions{MaxRetries: -1}
		}
		c, err := azblob.NewClientWithNoCredential(base, options)
		if err != nil {
			return err
		}
		return last(c.DeleteBlob(ctx, "x", "x", nil))
	}},
	{name: "genai", module: "google.golang.org/genai", call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		c, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: "x", Backend: genai.BackendGeminiAPI, HTTPClient: hc, HTTPOptions: genai.HTTPOptions{BaseURL: base}})
		if err != nil {
			return err
		}
		return last(c.Models.Get(ctx, "x", nil))
	}},
	{name: "go-git", module: "github.com/go-git/go-git/v5", hears: true, call: func(ctx context.Context, base string, hc *http.Client, _ bool) error {
		endpoint, err := transport.NewEndpoint(base)
		if err != nil {
			return err
		}
		session, err := githttp.NewClient(hc).NewUploadPackSession(endpoint, nil)
		if err != nil {
			return err
		}
		defer session.Close()
		return last(session.AdvertisedReferencesContext(ctx))
	}, wrong: map[string]retry.Class{"403, with a hint": permanent}, why: "a 403 is transport.ErrAuthorizationFailed, without its answer"},
}

// azcoreCall makes a call of a pipeline, whose answer is an error.
func azcoreCall(ctx context.Context, method, base string, o *policy.ClientOptions) error {
	req, err := azruntime.NewRequest(ctx, method, base)
	if err != nil {
		return err
	}
	resp, err := azruntime.NewPipeline("x", "v1", azruntime.PipelineOptions{}, o).Do(req)
	if err != nil {
		return err
	}
	return azruntime.NewResponseError(resp)
}
