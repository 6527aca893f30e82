package clienterr

import "strings"

// Class is a class of package retry, with the same number.
type Class uint8

// The classes.
const (
	Unknown Class = iota
	Permanent
	Transient
	TimedOut
	Throttled
	Unprocessed
)

// Status judges an HTTP status. hinted says that the response asks for a wait: with
// one, a 403 is what GitHub's rate limit says. With 408 a server has waited for the
// request (RFC 9110, section 15.5.9), with 504 a gateway for a server that may still
// be at work (15.6.5), and with 524 so has Cloudflare's. A 503 proves nothing, not even with a wait: a gateway may
// answer so to a request that ran.
func Status(code int, hinted bool) Facts {
	if code == 403 && hinted {
		return Facts(Throttled)
	}
	return httpCodes.number(int64(code))
}

// Alert judges the alert with which a peer ended the TLS handshake, by the codes of
// RFC 8446, section 6.
func Alert(code uint64) Facts { return tlsalertCodes.number(int64(min(code, 1<<31))) }

// MySQL judges the number of an error from MySQL, MariaDB or TiDB, and its text. 1290 says that an
// option of the server forbids a statement, of which only --read-only may be another one elsewhere.
func MySQL(number int64, text string) Facts {
	f := mysqlCodes.number(number)
	if number == optionForbids && text != "" && !strings.Contains(text, "read-only") && !strings.Contains(text, "read only") && !strings.Contains(text, "read_only") {
		f = Facts(Permanent)
	}
	return f
}

const optionForbids = 1290

// SQLite judges a result code of SQLite: an extended one that has no row is its primary one,
// which is in the lowest byte.
func SQLite(code int64) Facts {
	if f := sqliteCodes.number(code); f != 0 {
		return f
	}
	return sqliteCodes.number(code & 0xff)
}

// Text judges the text of an error that errors.New has returned, for clients that have no
// type for it.
func Text(text string) Facts {
	if text == "" {
		return 0
	}
	if !isPlace(text) && (len(text) < begins || !isPlace(text[:begins])) { // nearly all: it saves a failed attempt 50 ns
		return 0
	}
	return textsCodes.word("", text)
}

// begins is how many bytes of a beginning have a place of their own.
const begins = 8

// isPlace reports whether a text may be in the table, or the first bytes of one that begins so.
func isPlace(text string) bool {
	at := place(text)
	return textsPlaces[at/8]>>(at%8)&1 != 0
}

// place returns a bit of textsPlaces for a length with a first and a last letter. The generator
// has it too.
func place(text string) uint {
	return (uint(len(text))*0x9e5 ^ uint(text[0])*0x1f3 ^ uint(text[len(text)-1])*0x4d7) % (1 << 11)
}
