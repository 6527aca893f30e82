package retryhttp

import (
	"bytes"
	"io"
)

// maxPeek is how much of a body a Check reads.
const maxPeek = 64 << 10

// peek returns the first bytes of a body, and a body that begins with them.
func peek(body io.ReadCloser, most int64) (text []byte, again io.ReadCloser) {
	text, err := io.ReadAll(io.LimitReader(body, most))
	rest := io.Reader(body)
	if err != nil {
		rest = failing{err}
	}
	return text, putBack(text, rest, body)
}

// putBack returns a body that begins with text and goes on with rest.
func putBack(text []byte, rest io.Reader, body io.Closer) io.ReadCloser {
	return readCloser{io.MultiReader(bytes.NewReader(text), rest), body}
}

type readCloser struct {
	io.Reader
	io.Closer
}

// failing is what remains of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
