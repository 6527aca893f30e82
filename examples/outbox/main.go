// Outbox shows how a service tells others what it has stored, when it may crash between
// the two. It stores orders in SQLite, each with its message in one transaction, and
// publishes the messages after that. Nothing has to be installed. From the root of the
// repository:
//
//	go run ./examples/outbox
//
// The service is a process of its own, which dies twice: after the COMMIT of an
// order and before its message is published, and after a message was published and
// before that was noted. The broker, in this process, answers every fourth message with
// 503. The program exits with code 1 unless the broker got every stored order at
// least once, and nothing else. The second crash has a price: one message comes twice, so
// whoever gets it must know its key.
//
// outbox.go is the part to copy. main.go has the broker, the crashes and the count.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

const orders = 20 // two of which have no item, and are refused

// The service is this program, started again: these are in its environment.
const (
	databaseKey = "OUTBOX_DATABASE"
	brokerKey   = "OUTBOX_BROKER"
	crashKey    = "OUTBOX_CRASH" // where to die: one of the lives
)

// lives are how the service ends, one time after the other.
var lives = []string{"after COMMIT", "after a publication", "never"}

func main() {
	if actAsService() {
		return
	}
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

// actAsService is the service's whole life. It returns false in the parent.
func actAsService() bool {
	path := os.Getenv(databaseKey)
	if path == "" {
		return false
	}
	if err := serve(context.Background(), path, os.Getenv(brokerKey), os.Getenv(crashKey)); err != nil {
		fmt.Fprintln(os.Stderr, "outbox: service:", err)
		os.Exit(1)
	}
	return true
}

// serve stores the orders that are not stored yet, and then publishes.
func serve(ctx context.Context, path, broker, crash string) error {
	db, err := open(ctx, path)
	if err != nil {
		return err
	}
	defer db.Close()
	o := outbox{db}
	for id := 1; id <= orders; id++ {
		item := fmt.Sprint("item ", id)
		if id%10 == 0 {
			item = ""
		}
		if err := o.order(ctx, id, item); (err == nil) != (item != "") {
			return fmt.Errorf("order %d: %v", id, err)
		}
		if crash == lives[0] && id == orders/2+1 {
			die()
		}
	}

	// The queue waits, so there is one attempt for each delivery. The last delivery of a
	// message is late enough for a broker that is away for an hour.
	policy := retry.Policy{
		Name: "publish", MaxAttempts: 100, AttemptTimeout: lease / 2,
		Backoff: retry.Exponential{Base: 20 * time.Millisecond, Max: time.Minute},
	}
	published := 0
	return o.relay(ctx, policy, func(ctx context.Context, m message) error {
		req, err := http.NewRequest(http.MethodPost, broker, strings.NewReader(m.body))
		if err != nil {
			return retry.Stop(err)
		}
		req.Header.Set("Idempotency-Key", fmt.Sprintf("%q", fmt.Sprint("order-", m.id)))
		_, err = retryhttp.JSON[struct{}](ctx, retry.Policy{MaxAttempts: 1}, nil, req)
		if err == nil {
			published++
		}
		if crash == lives[1] && published == 3 {
			die()
		}
		return err
	})
}

// open opens the service's database. With one connection nothing waits for another's
// lock within a process.
func open(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(1000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, schema)
	return db, err
}

// die ends the process as a crash does: nothing is closed or rolled back.
func die() { os.Exit(died) }

const died = 3 // the exit code of a service that died where it was to

// broker counts the messages that it has accepted, by key.
type broker struct {
	mu       sync.Mutex
	requests int
	accepted map[string]int
}

func (b *broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests++; b.requests%4 == 0 {
		http.Error(w, "no leader", http.StatusServiceUnavailable)
		return
	}
	b.accepted[strings.Trim(r.Header.Get("Idempotency-Key"), `"`)]++
}

// told returns how many messages have arrived. A request of a service that has died may
// still be underway.
func (b *broker) told() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.accepted)
}

// run lets the service live three times, and counts.
func run(w io.Writer) error {
	dir, err := os.MkdirTemp("", "outbox-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "orders.db")
	b := &broker{accepted: map[string]int{}}
	server := httptest.NewServer(b)
	defer server.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, crash := range lives {
		if err := live(ctx, path, server.URL, crash); err != nil {
			return err
		}
		stored, waiting, err := count(ctx, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "the service dies %-20s %2d orders stored, %2d told of, %2d messages in the outbox\n", crash+":", len(stored), b.told(), waiting)
	}
	return b.check(ctx, w, path)
}

// live starts the service and waits for its end, which must be the one that crash names.
func live(ctx context.Context, path, url, crash string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), databaseKey+"="+path, brokerKey+"="+url, crashKey+"="+crash)
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == died {
		return nil
	}
	if err == nil && crash != "never" {
		err = errors.New("it did not")
	}
	if err != nil {
		err = fmt.Errorf("the service is to die %s: %w", crash, err)
	}
	return err
}

// count returns the ids of the stored orders, and how many messages wait.
func count(ctx context.Context, path string) (stored []int, waiting int, err error) {
	db, err := open(ctx, path)
	if err != nil {
		return nil, 0, err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM outbox`).Scan(&waiting); err != nil {
		return nil, 0, err
	}
	rows, err := db.QueryContext(ctx, `SELECT id FROM orders ORDER BY id`)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return nil, 0, err
		}
		stored = append(stored, id)
	}
	return stored, waiting, rows.Err()
}

// check returns an error if a stored order was not told of, or anything else was.
func (b *broker) check(ctx context.Context, w io.Writer, path string) error {
	stored, waiting, err := count(ctx, path)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var lost []int
	twice, accepted := 0, 0
	for _, id := range stored {
		n := b.accepted[fmt.Sprint("order-", id)]
		switch accepted += n; n {
		case 0:
			lost = append(lost, id)
		case 1:
		default:
			twice++
		}
	}
	fmt.Fprintf(w, "\n%d requests, %d messages accepted: %d orders told of, %d of them twice\n", b.requests, accepted, len(b.accepted), twice)
	switch {
	case len(lost) > 0:
		return fmt.Errorf("nobody was told of the orders %v", lost)
	case len(b.accepted) > len(stored):
		return fmt.Errorf("%d orders were told of, and %d are stored", len(b.accepted), len(stored))
	case len(stored) != orders-orders/10:
		return fmt.Errorf("%d orders are stored, want %d", len(stored), orders-orders/10)
	case waiting > 0:
		return fmt.Errorf("%d messages are still in the outbox", waiting)
	case twice == 0:
		return errors.New("no message came twice: the second crash was no crash")
	}
	return nil
}
