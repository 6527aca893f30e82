package clienterr

import "strings"

// Refused returns what the text of an error means with which net/http refuses to send a
// request, or to go on with it, and 0 for other texts. Blames says that it fails in the
// same way whatever the server does. These errors have no type, only texts, which a test
// makes net/http produce.
func Refused(text string) Facts {
	for _, r := range refusals {
		if strings.HasPrefix(text, r.text) {
			return Facts(Permanent) | r.blames
		}
	}
	return 0
}

var refusals = [...]struct {
	text   string
	blames Facts
}{
	{"unsupported protocol scheme", Blames},
	{"http: no Host in request URL", Blames},
	{"net/http: invalid method", Blames},
	{"net/http: invalid header", Blames},
	{"net/http: invalid trailer", Blames},
	{"http: nil Request.URL", Blames},
	{"http: nil Request.Header", Blames},
	{"http: Request.RequestURI can't be set", Blames},
	{"stopped after 10 redirects", 0},
	{"http: server gave HTTP response to HTTPS client", 0},
	{"failed to parse Location header", 0},
}
