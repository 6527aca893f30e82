package oracle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/bigquery"
	openapi "github.com/alibabacloud-go/darabonba-openapi/v2/client"
	"github.com/alibabacloud-go/tea/dara"
	"github.com/alibabacloud-go/tea/tea"
	aliyun "github.com/aliyun/alibaba-cloud-sdk-go/sdk/errors"
	"github.com/aws/aws-sdk-go-v2/aws"
	dynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	oci "github.com/oracle/oci-go-sdk/v65/common"
	tencent "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common/errors"
)

func init() {
	maps.Copy(vendors, map[string]vendor{
		"alibaba": {clients: []client{
			{"tea", func(s sample) error { return &tea.SDKError{Code: &s.code, StatusCode: &s.status} }},
			{"dara", func(s sample) error { return &dara.SDKError{Code: &s.code, StatusCode: &s.status} }},
			{"alibaba-cloud-sdk-go", func(s sample) error {
				return aliyun.NewServerError(s.status, fmt.Sprintf(`{"Code": %q}`, s.code), "")
			}},
			{"darabonba", func(s sample) error {
				if s.status >= 500 {
					return &openapi.ServerError{Code: &s.code, StatusCode: &s.status}
				}
				return &openapi.ClientError{Code: &s.code, StatusCode: &s.status}
			}},
		}},
		"hcloud": {clients: []client{
			{"hcloud-go", func(s sample) error {
				e := &hcloud.Error{Code: hcloud.ErrorCode(s.code)}
				setHidden(e, "response", &hcloud.Response{Response: response(s.status)})
				return *e
			}},
		}},
		"oci": {clients: []client{
			{"oci-go-sdk", func(s sample) error {
				c := oci.BaseClient{UserAgent: "x", Host: "https://x", Signer: unsigned{}, HTTPClient: answer(s.status, fmt.Sprintf(`{"code": %q}`, s.code))}
				_, err := c.Call(context.Background(), &http.Request{Method: "GET", URL: &url.URL{Path: "/"}})
				return err
			}},
		}},
		"registry": {clients: []client{
			{"go-containerregistry", func(s sample) error {
				e := &transport.Error{StatusCode: s.status, Request: request}
				if err := json.Unmarshal(fmt.Appendf(nil, `{"errors": [{"code": %q}]}`, s.code), e); err != nil {
					panic(err)
				}
				return e
			}},
		}},
		"tencent": {clients: []client{
			{"tencentcloud-sdk-go", func(s sample) error { return tencent.NewTencentCloudSDKError(s.code, "x", "1") }},
		}},
	})
	also("aws", client{"DynamoDB's transactions", func(s sample) error {
		if s.row.Code != "TransactionConflictException" {
			return nil
		}
		return &dynamodb.TransactionCanceledException{CancellationReasons: []dynamodb.CancellationReason{{Code: aws.String("TransactionConflict")}}}
	}})
	also("oauth", client{"auth", func(s sample) error {
		e := &auth.Error{Response: response(400)}
		setHidden(e, "code", s.code)
		return e
	}})
	also("google", client{"bigquery", func(s sample) error { return &bigquery.Error{Reason: s.code} }})
}

// unsigned signs nothing.
type unsigned struct{}

func (unsigned) Sign(*http.Request) error { return nil }

// answering is a server that gives each request the same answer.
type answering struct{ *http.Response }

func answer(status int, body string) answering {
	r := response(status)
	r.Body = io.NopCloser(strings.NewReader(body))
	return answering{r}
}

func (a answering) Do(*http.Request) (*http.Response, error) { return a.Response, nil }
