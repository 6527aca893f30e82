package errtext

import (
	"net/url"
	"strings"
	"unicode"
)

// public returns a URL without its userinfo, query and fragment, and whether it could
// be parsed. If it could not, everything before an @ and after a ? or a # is cut. So it
// is if the port may be the beginning of a password: user:12345?secret@host.
func public(raw string) (shown string, parsed bool) {
	if u, err := url.Parse(raw); err == nil && u.Opaque == "" && (u.User != nil || u.Path != "" || !endsUserinfo(u.Host, raw)) {
		u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
		return u.String(), true
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || strings.ContainsAny(scheme, ":@?#") {
		return within(raw), false
	}
	return scheme + "://" + within(rest), false
}

func within(s string) string {
	from, to := strings.LastIndex(s, "@")+1, strings.IndexAny(s, "?#")
	if to < 0 {
		to = len(s)
	}
	return s[min(from, to):to]
}

// separator identifies a URL in a text.
const separator = "://"

// withoutSecrets returns s without what follows a separator and is userinfo, or
// begins with ? or #. White space ends a URL.
func withoutSecrets(s string) string {
	if !strings.Contains(s, separator) {
		return s
	}
	var b strings.Builder
	for s != "" {
		word := s
		if i := strings.IndexFunc(s, unicode.IsSpace); i >= 0 {
			word = s[:i]
		}
		writePublic(&b, word)
		s = s[len(word):]
		rest := strings.TrimLeftFunc(s, unicode.IsSpace)
		b.WriteString(s[:len(s)-len(rest)])
		s = rest
	}
	return b.String()
}

// writePublic writes a word without the secrets of its URLs. A URL may hold others.
func writePublic(b *strings.Builder, word string) {
	before, rest, ok := strings.Cut(word, separator)
	b.WriteString(before)
	hidden := ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest, hidden = rest[:i], rest[i:]
	}
	for ok {
		var piece string
		piece, rest, ok = strings.Cut(rest, separator)
		authority, path := piece, ""
		if i := strings.IndexByte(piece, '/'); i >= 0 {
			authority, path = piece[:i], piece[i:]
		}
		at := strings.LastIndexByte(authority, '@')
		authority = authority[at+1:]
		b.WriteString(separator)
		if !hosts(authority) || at < 0 && (endsUserinfo(authority, path) || endsUserinfo(authority, hidden)) {
			b.WriteString("…")
			return
		}
		b.WriteString(authority)
		b.WriteString(path)
	}
}

// endsUserinfo reports whether what follows an authority may hold the end of a password
// that begins like a port: user:12345/secret@host. The @ of a path like /@scope ends none.
func endsUserinfo(authority, after string) bool {
	return strings.Contains(authority, ":") && strings.Contains(strings.ReplaceAll(after, "/@", ""), "@")
}

// hosts reports whether s, which has no userinfo that ends with an @, is a list of
// hosts, each with a port or none. Else it may be the half of a URL, which ends
// within a password, or a password with a / in it. Marks that end a word in a text
// do not matter.
func hosts(s string) bool {
	for host := range strings.SplitSeq(s, ",") {
		if address, ok := strings.CutPrefix(host, "["); ok { // IPv6
			if _, host, ok = strings.Cut(address, "]"); !ok {
				return false
			}
		} else if i := strings.IndexByte(host, ':'); i >= 0 {
			host = host[i:]
		} else {
			continue
		}
		host = strings.TrimRight(host, "\"'`.;:!)]}>")
		if port, ok := strings.CutPrefix(host, ":"); host != "" && (!ok || len(port) > 5 || strings.Trim(port, "0123456789") != "") {
			return false
		}
	}
	return true
}
