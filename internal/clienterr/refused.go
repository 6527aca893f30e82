package clienterr

import "strings"

// Refused reports whether text is that of an error with which net/http refuses to send a
// request, or to go on with it. faulty says that it is about the request: it fails in the
// same way whatever the server does. These errors have no type, only texts, which a test
// makes net/http produce.
func Refused(text string) (refused, faulty bool) {
	for _, r := range refusals {
		if strings.HasPrefix(text, r.text) {
			return true, r.faulty
		}
	}
	return false, false
}

var refusals = [...]struct {
	text   string
	faulty bool
}{
	{"unsupported protocol scheme", true},
	{"http: no Host in request URL", true},
	{"net/http: invalid method", true},
	{"net/http: invalid header", true},
	{"net/http: invalid trailer", true},
	{"http: nil Request.URL", true},
	{"http: nil Request.Header", true},
	{"http: Request.RequestURI can't be set", true},
	{"stopped after 10 redirects", false},
	{"http: server gave HTTP response to HTTPS client", false},
	{"failed to parse Location header", false},
}

// faultyText judges the text of an error without a type.
func faultyText(text string) (faulty, known bool) {
	known, faulty = Refused(text)
	return faulty, known
}
