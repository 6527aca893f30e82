package otelretry

import (
	"net/http"

	"github.com/goretry/retry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// ResendCount returns a transport that sets http.request.resend_count on the client
// span of each request, from a run's second attempt on: 1 for the second. Put it below
// the instrumentation that makes these spans, so that they are in the request's
// context:
//
//	otelhttp.NewTransport(otelretry.ResendCount(nil))
//
// Spans of another kind are not changed. A nil base means [http.DefaultTransport]. The
// transport is safe for concurrent use if base is.
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
		kind, ok := span.(interface{ SpanKind() trace.SpanKind }) // the SDK's spans have this method; without a client span, this is the attempt's
		if !ok || kind.SpanKind() == trace.SpanKindClient {
			span.SetAttributes(resendCountKey.Int(n - 1))
		}
	}
	return r.base.RoundTrip(req)
}
