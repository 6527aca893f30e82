package retryhttp

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// hasKey reports whether a request has an idempotency key that counts: a value that is
// not empty or, as for net/http, a header without any value, which is not sent. Names
// are compared without case, as on the wire.
func hasKey(h http.Header) bool {
	for name, values := range h {
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Idempotency-Key", "X-Idempotency-Key":
			if len(values) == 0 || slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) != "" }) {
				return true
			}
		}
	}
	return false
}

// setKey sets the key, in place of an empty one under whatever name.
func setKey(req *http.Request, key string) {
	req.Header = req.Header.Clone()
	for name := range req.Header {
		if textproto.CanonicalMIMEHeaderKey(name) == "Idempotency-Key" {
			delete(req.Header, name)
		}
	}
	setHeader(req, "Idempotency-Key", key)
}

func setHeader(req *http.Request, name, value string) {
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set(name, value)
}

// quote returns a key as a string of structured fields (RFC 9651, section 3.3.3), as
// draft-ietf-httpapi-idempotency-key-header wants it. A key that is such a string
// already is not changed.
func quote(key string) (string, error) {
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", fmt.Errorf("retryhttp: IdempotencyKey: byte %d, %#02x, is not printable ASCII", i, key[i])
		}
	}
	if key == "" || isQuoted(key) {
		return key, nil
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`, nil
}

// isQuoted reports whether printable ASCII is a string of structured fields.
func isQuoted(s string) bool {
	inner, ok := strings.CutPrefix(s, `"`)
	inner, ends := strings.CutSuffix(inner, `"`)
	return ok && ends && !strings.ContainsAny(strings.NewReplacer(`\\`, "", `\"`, "").Replace(inner), `"\`)
}
