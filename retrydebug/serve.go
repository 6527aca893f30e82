package retrydebug

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// ServeHTTP serves the page, or with ?format=json the same data as JSON. Allow decides
// who may see it. Methods other than GET and HEAD get 405.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r == nil {
		http.NotFound(w, req)
		return
	}
	r.begin()
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", contentSecurityPolicy())
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "retrydebug: GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	if !r.allowed(req) {
		http.Error(w, "retrydebug: this page is for requests from the machine itself; Recorder.Allow decides who else may see it", http.StatusForbidden)
		return
	}
	var body bytes.Buffer
	var err error
	q := req.URL.Query()
	switch q.Get("format") {
	case "json":
		h.Set("Content-Type", "application/json")
		e := json.NewEncoder(&body)
		e.SetEscapeHTML(false) // which nobody takes for HTML, and which makes names six times as long
		err = e.Encode(r.report())
	case "":
		v, ok := viewOf(q)
		if !ok {
			http.Error(w, "retrydebug: window is 10s, 1m or 1h, and refresh is off or absent", http.StatusBadRequest)
			return
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		err = v.render(&body, r.report())
	default:
		http.Error(w, "retrydebug: the only format is json", http.StatusBadRequest)
		return
	}
	if err != nil {
		http.Error(w, "retrydebug: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	if req.Method == http.MethodGet {
		_, _ = w.Write(body.Bytes()) // the client may be gone
	}
}

func (r *Recorder) allowed(req *http.Request) bool {
	if r.Allow != nil {
		return r.Allow(req)
	}
	return local(req)
}

// local reports whether a request was made on this machine, for this machine, and has
// no headers of a proxy. The host name matters, because the name of an attacker's page
// may resolve to 127.0.0.1 too.
func local(req *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if _, ok := req.Header[name]; ok {
			return false
		}
	}
	from, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	host := req.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}
