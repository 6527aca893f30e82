package clients_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"gorm.io/gorm"

	"github.com/goretry/retry"
)

// Errors of which only the text is known, from the calls that return them.
func TestTexts(t *testing.T) {
	name := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(name, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	read := func(do func(*bbolt.Tx) error) error { return db.View(do) }
	write := func(do func(*bbolt.Tx) error) error { return db.Update(do) }
	closed, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	store, err := minio.New("192.0.2.1", &minio.Options{Creds: credentials.NewStaticV4("x", "x", ""), Region: "x"})
	if err != nil {
		t.Fatal(err)
	}
	put := func(bucket, object string) error {
		return last(store.PutObject(t.Context(), bucket, object, strings.NewReader("x"), 1, minio.PutObjectOptions{}))
	}
	for name, tt := range map[string]struct {
		err  error
		want retry.Class
	}{
		"bbolt, another process":   {last(bbolt.Open(name, 0o600, &bbolt.Options{Timeout: time.Millisecond})), transient},
		"bbolt, no bucket":         {write(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("none")) }), permanent},
		"bbolt, a read-only tx":    {read(func(tx *bbolt.Tx) error { return last(tx.CreateBucket([]byte("x"))) }), permanent},
		"bbolt, no name":           {write(func(tx *bbolt.Tx) error { return last(tx.CreateBucket(nil)) }), permanent},
		"gorm":                     {(&gorm.DB{Config: &gorm.Config{}}).AddError(gorm.ErrMissingWhereClause), permanent},
		"a file that was closed":   {last(closed.Read(make([]byte, 1))), permanent},
		"minio-go, a short bucket": {put("x", "x"), permanent},
		"minio-go, its letters":    {put("buckét", "x"), permanent},
		"minio-go, no object":      {put("bucket", ""), permanent},
		"minio-go, a long object":  {put("bucket", strings.Repeat("x", 2000)), permanent},
		// clients.md and faq.md name the next.
		"gocql.ErrNotFound":      {gocql.ErrNotFound, unknown},
		"gorm.ErrRecordNotFound": {gorm.ErrRecordNotFound, permanent},
		// Others could say so of what passes.
		"bbolt, a file's version": {bolterrors.ErrVersionMismatch, unknown},
		"bbolt, a file's sum":     {bolterrors.ErrChecksum, unknown},
	} {
		if got := retry.DefaultClassifier(tt.err); got != tt.want || tt.err == nil {
			t.Errorf("%s: %v is %v, want %v", name, tt.err, got, tt.want)
		}
	}
}

// An upload's file is closed after the first attempt. The run ends with the second, and its text
// still says what the server has said.
func TestUploadOfAFile(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer server.Close()
	name := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for body, attempts := range map[string]int{"a file": 2, "a reader with a length": 3} {
		t.Run(body, func(t *testing.T) {
			file, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequest(http.MethodPost, server.URL, file)
			if err != nil {
				t.Fatal(err)
			}
			if req.ContentLength = 1; body != "a file" {
				req.Body = io.NopCloser(file)
			}
			err = retry.Run(t.Context(), retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)}, func(context.Context) error {
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					return err
				}
				resp.Body.Close()
				return errors.New(resp.Status)
			})
			if e, ok := errors.AsType[*retry.Error](err); !ok || e.Attempts != attempts || !strings.HasSuffix(err.Error(), "; before that: 502 Bad Gateway") {
				t.Errorf("%v, want %d attempts, and the status", err, attempts)
			}
		})
	}
}
