package otelretry

import (
	"net/http"

	"github.com/goretry/retry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// ResendCount returns a transport that puts http.request.resend_count on the client
// span of each request from a run's second attempt on: 1 for the second. It goes
// below what makes these spans, for then they are in the request's context:
//
//	otelhttp.NewTransport(otelretry.ResendCount(nil))
//
// A span that says it is not a client's is left alone. A nil base stands for
// [http.DefaultTransport]. The transport is safe for concurrent use if base is.
func ResendCount(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return resends{base}
}

// resendCountKey is of OpenTelemetry's semantic conventions, as errorTypeKey is.
const resendCountKey = attribute.Key("http.request.resend_count")

type resends struct{ base http.RoundTripper }

func (r resends) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if n := retry.AttemptNumber(ctx); n > 1 {
		span := trace.SpanFromContext(ctx)
		kind, ok := span.(interface{ SpanKind() trace.SpanKind }) // the SDK's spans tell; without a client's, this is the attempt's
		if !ok || kind.SpanKind() == trace.SpanKindClient {
			span.SetAttributes(resendCountKey.Int(n - 1))
		}
	}
	return r.base.RoundTrip(req)
}
