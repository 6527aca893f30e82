package oracle_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/hirochachacha/go-smb2"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/jcmturner/gokrb5/v8/messages"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

func init() {
	maps.Copy(vendors, map[string]vendor{
		"kerberos": {clients: []client{
			{"gokrb5", func(s sample) error { return messages.KRBError{ErrorCode: int32(s.number)} }},
			{"gokrb5's client", func(s sample) error {
				return krberror.Errorf(messages.KRBError{ErrorCode: int32(s.number)}, krberror.KDCError, "AS Exchange Error: kerberos error response from KDC")
			}},
		}},
		"krberror": {clients: []client{
			{"gokrb5's client", func(s sample) error { return krberror.New(s.code, "x") }},
		}},
		"ntstatus": {clients: []client{
			{"go-smb2", func(s sample) error { return &smb2.ResponseError{Code: uint32(int32(s.number))} }},
		}},
	})
}

// logins are the codes with which a server refuses a login, by table.
var logins = map[string][]string{
	"acme":          {"accountDoesNotExist", "unauthorized"},
	"aerospike":     {"60", "62", "63", "64", "65"},
	"alibaba":       {"InvalidAccessKeyId.NotFound", "InvalidAccessKeyId.Inactive", "SignatureDoesNotMatch"},
	"amqp091":       {"403"},
	"amqp10":        {"amqp:unauthorized-access"},
	"anthropic":     {"authentication_error"},
	"aws":           {"InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClientException", "IncompleteSignature", "AuthFailure"},
	"azure":         {"AuthenticationFailed"},
	"cassandra":     {"0x0100"},
	"clickhouse":    {"192", "193", "194", "516"},
	"couchbase":     {"0x20"},
	"discord":       {"40001"},
	"elasticsearch": {"security_exception"},
	"etcd":          {"etcdserver: authentication failed, invalid user ID or password"},
	"eventhubs":     {"unauthorized"},
	"firebird":      {"335544472", "335544745"},
	"google":        {"required"},
	"grpc":          {"16"},
	"hana":          {"10", "414"},
	"hcloud":        {"unauthorized"},
	"http":          {"401", "407"},
	"imap":          {"AUTHENTICATIONFAILED", "AUTHORIZATIONFAILED", "EXPIRED"},
	"kafka":         {"58", "93", "-169"},
	"kerberos":      {"1", "6", "12", "18", "23", "24", "31"},
	"krberror":      {"Decrypting_Error"},
	"kubernetes":    {"Unauthorized"},
	"ldap":          {"7", "8", "48", "49", "86", "206"},
	"mongo":         {"11", "13", "18"},
	"mqtt":          {"0x86", "0x87", "0x8C"},
	"mssql":         {"18450", "18452", "18456", "18470", "18486", "18487", "18488"},
	"mysql":         {"1044", "1045", "1698", "1862", "3118", "3955"},
	"neo4j":         {"Neo.ClientError.*"}, // Security.Unauthorized
	"nsq":           {"E_AUTH_FIRST*", "E_UNAUTHORIZED*"},
	"ntstatus":      {"0xc000006d", "0xc0000064", "0xc000006a-0xc000006c", "0xc000006e", "0xc0000071", "0xc0000072", "0xc0000193", "0xc0000224", "0xc0000234"},
	"oauth":         {"invalid_client", "unauthorized_client", "access_denied"},
	"oci":           {"401 NotAuthenticated"},
	"openai":        {"401 invalid_api_key"},
	"oracle":        {"1017", "28000", "28001"},
	"pulsar":        {"7", "9"},
	"redis":         {"NOAUTH", "WRONGPASS", "ERR AUTH *", "ERR Client sent AUTH*"},
	"registry":      {"UNAUTHORIZED"},
	"reply":         {"430", "432", "530", "534", "535"},
	"servicebus":    {"unauthorized"},
	"slack":         {"invalid_auth", "not_authed", "account_inactive", "token_revoked"},
	"snowflake":     {"390100", "390101", "390102", "390144"},
	"sqlstate":      {"28000", "28P01"},
	"ssh":           {"2", "13", "14"},
	"stripe":        {"401 authentication_error"},
	"temporal":      {"16"},
	"tencent":       {"AuthFailure", "AuthFailure.*"},
	"texts": {"authentication required", "bad user name or password", "not Authorized", "zk: client authentication failed", "nats: authorization violation", "username/password authentication failed",
		"ssh: unable to authenticate*"},
	"tlsalert": {"42", "48", "49", "116"},
	"trino":    {"4"},
	"twilio":   {"20003"},
	"twirp":    {"unauthenticated"},
	"ydb":      {"400020"},
}

// A login that is refused is tried once: more of them lock the account.
func TestLoginsAreTriedOnce(t *testing.T) {
	names, tables := byVendor(t)
	for _, name := range names {
		codes := map[string]bool{}
		for _, code := range logins[name] {
			codes[code] = true
		}
		for _, all := range samples(t, tables[name]) {
			for _, s := range all {
				if !codes[s.row.Code] {
					continue
				}
				codes[s.row.Code] = false
				for _, c := range vendors[name].clients {
					err := c.make(s)
					if err == nil {
						continue
					}
					n := 0
					p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0), Clock: &clockx.Virtual{}}
					_ = retry.Run(t.Context(), p, func(context.Context) error { n++; return err })
					if n != 1 {
						t.Errorf("%d logins after %s %s of %s, want one", n, name, s, c.name)
					}
				}
			}
		}
		for code, missing := range codes {
			if missing {
				t.Errorf("%s has no row %s", name, code)
			}
		}
	}
	for name := range logins {
		if vendors[name].clients == nil {
			t.Errorf("%s has no client: %s", name, strings.Join(logins[name], " "))
		}
	}
}
