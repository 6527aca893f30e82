package retryhttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/goretry/retry/internal/errtree"
)

// FirstEvent returns a [Transport].Check for streams of server-sent events whose first
// event may be an error, though the status is 200: so that such a stream is asked for
// again. bad gets the name and the data of the first event, and returns an error if the
// attempt has failed. The error is judged as any other that Check returns. Comments are
// no events, nor is a name without data, and the name is "" if the event has none. The
// Check waits for the first event, which counts towards AttemptTimeout, and puts back what
// it has read. If that is more than 64 KiB, bad is not called.
//
// An event ends with an empty line. Lines end in CR LF, in LF or in CR alone, as the HTML
// standard has it. If the stream ends before the empty line, what there is counts as the
// event if it has data: unlike browsers, since some servers leave out the last line.
//
// If the stream breaks or ends before its first event, the attempt has failed. After the
// first event a break is the caller's error: another stream would have another text. The
// Check ignores responses of other types. FirstEvent panics if bad is nil.
func FirstEvent(bad func(event, data string) error) func(*http.Response) error {
	if bad == nil {
		panic("retryhttp: nil bad")
	}
	return func(resp *http.Response) error {
		kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		if kind != "text/event-stream" || resp.StatusCode >= 300 || resp.Body == nil {
			return nil
		}
		s := eventStream{r: bufio.NewReader(resp.Body)}
		event, data, err := s.first()
		switch {
		case err == nil:
			resp.Body = putBack(s.text, s.r, resp.Body)
			return bad(event, data)
		case err == errLongEvent:
			resp.Body = putBack(s.text, s.r, resp.Body)
			return nil
		}
		resp.Body = putBack(s.text, failing{err}, resp.Body)
		if errtree.Holds(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("retryhttp: before the first event: %w", err)
	}
}

var errLongEvent = errors.New("no event in 64 KiB")

// eventStream reads the first event of a stream, and not a byte more: what follows may
// be long in coming.
type eventStream struct {
	r    *bufio.Reader
	text []byte // all that was read
	cr   bool   // which ends in CR: a LF that follows belongs to it
}

// first returns the first event, errLongEvent if it is too long, or another error if there
// is none.
func (s *eventStream) first() (event, data string, err error) {
	var lines []string
	for begin := true; ; begin = false {
		field, err := s.line()
		if err != nil && err != io.EOF {
			return "", "", err
		}
		if begin {
			field = strings.TrimPrefix(field, "\ufeff")
		}
		name, value, _ := strings.Cut(field, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "event":
			event = value
		case name == "data":
			lines = append(lines, value)
		case field == "" && err == nil && lines == nil:
			event = "" // without data it is no event
		}
		if lines != nil && (field == "" || err == io.EOF) {
			return event, strings.Join(lines, "\n"), nil
		}
		if err != nil {
			return "", "", err
		}
	}
}

// line returns the next line without its end. With an error it returns what there is of
// the line.
func (s *eventStream) line() (string, error) {
	begin := len(s.text)
	for {
		b, err := s.r.ReadByte()
		if err != nil {
			return string(s.text[begin:]), err
		}
		s.text = append(s.text, b)
		second := b == '\n' && s.cr
		s.cr = b == '\r'
		switch {
		case len(s.text) > maxPeek:
			return "", errLongEvent
		case second:
			begin++
		case b == '\r', b == '\n':
			return string(s.text[begin : len(s.text)-1]), nil
		}
	}
}
