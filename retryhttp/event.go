package retryhttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// FirstEvent returns a [Transport].Check for streams of server-sent events whose first
// event may be an error, though the status is 200: so that such a stream is asked for
// again. bad gets the name and the data of the first event, and returns an error if the
// attempt has failed. The error is judged as any other that Check returns. Comments are
// no events, and the name is "" if the event has none. The Check waits for the first
// event, which counts towards AttemptTimeout, and puts back what it has read. If that is
// more than 64 KiB, bad is not called.
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
		r := bufio.NewReaderSize(resp.Body, 4<<10)
		text, event, data, err := readEvent(r)
		if err != nil && len(text) <= maxPeek {
			resp.Body = putBack(text, failing{err}, resp.Body)
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("retryhttp: before the first event: %w", err)
		}
		resp.Body = putBack(text, r, resp.Body)
		if len(text) > maxPeek {
			return nil
		}
		return bad(event, data)
	}
}

// readEvent reads a stream up to the end of its first event. It returns all that it has
// read, and an error if there was no event.
func readEvent(r *bufio.Reader) (text []byte, event, data string, err error) {
	var line []byte
	var lines []string
	for len(text) <= maxPeek {
		part, err := r.ReadSlice('\n')
		text, line = append(text, part...), append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		field := strings.TrimRight(strings.TrimPrefix(string(line), "\ufeff"), "\r\n")
		line = line[:0]
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
		if lines != nil && (field == "" && err == nil || err == io.EOF) { // some servers leave out the last empty line
			return text, event, strings.Join(lines, "\n"), nil
		}
		if err != nil {
			return text, "", "", err
		}
	}
	return text, "", "", nil
}
