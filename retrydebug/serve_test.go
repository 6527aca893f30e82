package retrydebug_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/goretry/retry/retrydebug"
)

func TestAccess(t *testing.T) {
	var page retrydebug.Recorder
	for _, tt := range []struct {
		remote, host string
		header       string
		want         int
	}{
		{"127.0.0.1:50000", "127.0.0.1:8080", "", 200},
		{"127.0.0.1:50000", "127.0.0.1", "", 200},
		{"127.9.8.7:50000", "localhost", "", 200},
		{"127.0.0.1:50000", "LocalHost:8080", "", 200},
		{"[::1]:50000", "[::1]:8080", "", 200},
		{"[::1]:50000", "[::1]", "", 200},
		{"[::ffff:127.0.0.1]:50000", "[::ffff:127.0.0.1]:80", "", 200},
		{"[::1%lo]:50000", "localhost:8080", "", 200},
		{"10.1.2.3:50000", "localhost:8080", "", 403},
		{"[2001:db8::1]:50000", "[::1]:8080", "", 403},
		{"[::ffff:10.1.2.3]:50000", "localhost", "", 403},
		{"0.0.0.0:50000", "localhost", "", 403},
		{"@", "localhost", "", 403}, // a Unix socket
		{"", "localhost", "", 403},
		{"/run/app.sock", "localhost", "", 403},
		{"localhost:50000", "localhost", "", 403},
		{"127.0.0.1", "localhost", "", 403},
		{"127.0.0.1:50000", "", "", 403},
		{"127.0.0.1:50000", "rebound.example:8080", "", 403},
		{"127.0.0.1:50000", "localhost.example", "", 403},
		{"127.0.0.1:50000", "localhost.:8080", "", 403},
		{"127.0.0.1:50000", "127.0.0.1.example", "", 403},
		{"127.0.0.1:50000", "10.1.2.3:8080", "", 403},
		{"127.0.0.1:50000", "0.0.0.0:8080", "", 403},
		{"127.0.0.1:50000", "[localhost]:8080:", "", 403},
		{"127.0.0.1:50000", "localhost", "Forwarded", 403},
		{"127.0.0.1:50000", "localhost", "X-Forwarded-For", 403},
		{"127.0.0.1:50000", "localhost", "X-Forwarded-Host", 403},
		{"127.0.0.1:50000", "localhost", "X-Real-IP", 403},
		{"127.0.0.1:50000", "localhost", "Via", 403},
		{"127.0.0.1:50000", "localhost", "X-Forwarded-Proto", 200},
	} {
		for _, query := range []string{"", "?format=json"} {
			req := httptest.NewRequest("GET", "/debug/retry"+query, nil)
			req.RemoteAddr, req.Host = tt.remote, tt.host
			if tt.header != "" {
				req.Header.Set(tt.header, "")
			}
			w := httptest.NewRecorder()
			page.ServeHTTP(w, req)
			if w.Code != tt.want {
				t.Errorf("from %q to %q with %q: %d, want %d", tt.remote, tt.host, tt.header, w.Code, tt.want)
			}
			if body := w.Body.String(); w.Code == 403 && (!strings.Contains(body, "Recorder.Allow") || strings.Count(body, "\n") != 1) {
				t.Errorf("refused with %q", body)
			}
		}
	}
}

func TestAllow(t *testing.T) {
	page := retrydebug.Recorder{Allow: func(req *http.Request) bool { return req.Header.Get("Authorization") == "yes" }}
	for authorization, want := range map[string]int{"yes": 200, "": 403} {
		req := httptest.NewRequest("GET", "http://ops.example/debug/retry", nil)
		req.Header.Set("Authorization", authorization)
		req.Header.Set("X-Forwarded-For", "10.1.2.3")
		w := httptest.NewRecorder()
		page.ServeHTTP(w, req)
		if w.Code != want {
			t.Errorf("Authorization %q: %d, want %d", authorization, w.Code, want)
		}
		req.RemoteAddr, req.Host = "127.0.0.1:1", "localhost"
		w = httptest.NewRecorder()
		page.ServeHTTP(w, req)
		if w.Code != want {
			t.Errorf("Authorization %q from this machine: %d, want %d", authorization, w.Code, want)
		}
	}
}

func TestRequests(t *testing.T) {
	var page retrydebug.Recorder
	for _, tt := range []struct {
		method, query string
		want          int
		contentType   string
	}{
		{"GET", "", 200, "text/html; charset=utf-8"},
		{"GET", "?window=10s&refresh=off", 200, "text/html; charset=utf-8"},
		{"GET", "?window=1h", 200, "text/html; charset=utf-8"},
		{"GET", "?format=json", 200, "application/json"},
		{"GET", "?format=JSON", 400, ""},
		{"GET", "?format=html", 400, ""},
		{"GET", "?format=%3Cscript%3E", 400, ""},
		{"GET", "?window=5m", 400, ""},
		{"GET", "?refresh=on", 400, ""},
		{"HEAD", "", 200, "text/html; charset=utf-8"},
		{"HEAD", "?format=json", 200, "application/json"},
		{"HEAD", "?format=x", 400, ""},
		{"POST", "", 405, ""},
		{"PUT", "?format=json", 405, ""},
		{"OPTIONS", "", 405, ""},
	} {
		req := httptest.NewRequest(tt.method, "/debug/retry"+tt.query, nil)
		req.RemoteAddr, req.Host = "127.0.0.1:50000", "localhost"
		w := httptest.NewRecorder()
		page.ServeHTTP(w, req)
		h := w.Result().Header
		if w.Code != tt.want || tt.contentType != "" && h.Get("Content-Type") != tt.contentType {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.query, w.Code, h.Get("Content-Type"), tt.want, tt.contentType)
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s %s: %s %q, want %q", tt.method, tt.query, name, got, want)
			}
		}
		for _, want := range []string{"default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
			if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy+";", want+";") {
				t.Errorf("%s %s: policy %q without %s", tt.method, tt.query, policy, want)
			}
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s %s: %s", tt.method, tt.query, name)
			}
		}
		if tt.want == 405 && h.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow %q", tt.method, h.Get("Allow"))
		}
		if empty := w.Body.Len() == 0; tt.want == 200 && empty != (tt.method == "HEAD") {
			t.Errorf("%s %s: a body of %d bytes", tt.method, tt.query, w.Body.Len())
		}
		if strings.Contains(w.Body.String(), "%3C") || tt.want != 200 && strings.Contains(w.Body.String(), "<") {
			t.Errorf("%s %s: %s", tt.method, tt.query, w.Body)
		}
	}
	w := httptest.NewRecorder()
	(*retrydebug.Recorder)(nil).ServeHTTP(w, httptest.NewRequest("GET", "/debug/retry", nil))
	if w.Code != 404 {
		t.Errorf("a nil Recorder: %d, want 404", w.Code)
	}
}
