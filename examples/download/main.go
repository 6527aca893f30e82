package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func main() {
	size := flag.Int64("size", 64<<20, "bytes of the file")
	every := flag.Int64("break", 5<<20, "bytes after which each connection breaks off")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *size, *every); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run downloads a file of the given size from a server whose connections break off.
func run(ctx context.Context, out io.Writer, size, every int64) error {
	if size < 0 || every <= 0 {
		return errors.New("want a size of at least 0, and a break of at least 1")
	}
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(&breaking{w, every}, r, "", time.Time{}, io.NewSectionReader(file{}, 0, size))
	}))
	defer server.Close()

	req, err := http.NewRequest(http.MethodGet, server.URL, nil)
	if err != nil {
		return err
	}
	policy := retry.Policy{
		Name:           "download",
		AttemptTimeout: 10 * time.Second, // for the headers
		Backoff:        retry.Exponential{Base: 10 * time.Millisecond},
	}
	start := time.Now()
	resp, err := retryhttp.Download(ctx, policy, server.Client(), req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	got := sha256.New()
	n, err := io.Copy(got, resp.Body)
	if err != nil {
		return err
	}
	want := sha256.New()
	if _, err := io.Copy(want, io.NewSectionReader(file{}, 0, size)); err != nil {
		return err
	}
	if string(got.Sum(nil)) != string(want.Sum(nil)) {
		return errors.New("the checksums differ")
	}
	_, err = fmt.Fprintf(out, "%d bytes in %d requests and %v, SHA-256 %x\n", n, requests.Load(), time.Since(start).Round(time.Millisecond), want.Sum(nil))
	return err
}

// file is any number of bytes that are not all alike.
type file struct{}

func (file) ReadAt(p []byte, at int64) (int, error) {
	for i := range p {
		n := uint64(at) + uint64(i)
		p[i] = byte(n ^ n>>8 ^ n>>16 ^ n>>24)
	}
	return len(p), nil
}

// breaking breaks the connection off when so many bytes are written.
type breaking struct {
	http.ResponseWriter
	left int64
}

func (b *breaking) Write(p []byte) (int, error) {
	if int64(len(p)) <= b.left {
		b.left -= int64(len(p))
		return b.ResponseWriter.Write(p)
	}
	_, _ = b.ResponseWriter.Write(p[:b.left])
	_ = http.NewResponseController(b.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

func (b *breaking) Unwrap() http.ResponseWriter { return b.ResponseWriter }
