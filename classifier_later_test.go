package retry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// What is not there yet may come: a socket of a server that has not started, or a service's
// first endpoint.
func TestDialOfWhatMayComeLater(t *testing.T) {
	_, missing := net.Dial("unix", filepath.Join(t.TempDir(), "missing.sock"))
	_, file := os.Open(filepath.Join(t.TempDir(), "missing"))
	via := func(call string, e syscall.Errno) error { return dial(os.NewSyscallError(call, e)) }
	for _, tt := range []struct {
		err  error
		want retry.Class
	}{
		{missing, retry.Unprocessed},
		{fmt.Errorf("docker: %w", missing), retry.Unprocessed},
		{&url.Error{Op: "Get", Err: missing}, retry.Transient},
		{via("connect", syscall.ENOENT), retry.Unprocessed},
		{via("connect", syscall.EPERM), retry.Unprocessed},
		{dial(syscall.EPERM), retry.Unprocessed},
		{via("socket", syscall.EPERM), retry.Permanent},
		{via("connect", syscall.EACCES), retry.Permanent},
		{via("connect", syscall.EAFNOSUPPORT), retry.Permanent},
		{via("connect", syscall.EINVAL), retry.Permanent},
		{via("connect", syscall.EPROTOTYPE), retry.Permanent},
		{dial(fs.ErrNotExist), retry.Permanent},
		{file, retry.Permanent},
		{read(os.NewSyscallError("read", syscall.EPERM)), retry.Permanent},
		{syscall.ENOENT, retry.Permanent},
	} {
		if got := retry.DefaultClassifier(tt.err); got != tt.want {
			t.Errorf("%v is %v, want %v", tt.err, got, tt.want)
		}
	}
}

// A program that is not there does not come, and a server that was closed does not open again.
func TestSuperviseEndsWithWhatWasEnded(t *testing.T) {
	server := &http.Server{}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	for name, op := range map[string]func(context.Context) error{
		"a closed server": func(context.Context) error { return server.ListenAndServe() },
		"a wrapped one":   func(context.Context) error { return fmt.Errorf("api: %w", server.ListenAndServe()) },
		"no program":      func(ctx context.Context) error { return exec.CommandContext(ctx, "no-such-program").Run() },
		"no file":         func(ctx context.Context) error { return exec.CommandContext(ctx, "/no/such/program").Run() },
	} {
		p, _ := virtual()
		calls := 0
		err := retry.Supervise(t.Context(), p, 1, func(ctx context.Context) error { calls++; return op(ctx) })
		if e, ok := errors.AsType[*retry.Error](err); calls != 1 || !ok || e.Reason != retry.ReasonPermanent {
			t.Errorf("%s: %v after %d calls, want the end after one", name, err, calls)
		}
	}
}

// A device starts in 1970, and its clock is set later.
func TestSuperviseAwaitsAClockThatIsSet(t *testing.T) {
	future := &x509.Certificate{NotBefore: time.Now().Add(24 * time.Hour)}
	past := &x509.Certificate{NotBefore: time.Now().Add(-24 * time.Hour)}
	before := x509.CertificateInvalidError{Cert: past, Reason: x509.Expired, Detail: "current time 1970-01-01T00:00:00Z is before 2026-01-01T00:00:00Z"}
	after := x509.CertificateInvalidError{Cert: past, Reason: x509.Expired, Detail: "current time 2036-01-01T00:00:00Z is after 2026-01-01T00:00:00Z"}
	verified := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	for _, tt := range []struct {
		err   error
		again bool
	}{
		{before, true},
		{verified(before), true},
		{&url.Error{Op: "Get", Err: verified(before)}, true},
		{dial(verified(before)), true},
		{verified(x509.CertificateInvalidError{Cert: future, Reason: x509.Expired}), true}, // from the system's verifier
		{after, false},
		{verified(after), false},
		{verified(x509.CertificateInvalidError{Reason: x509.Expired}), false},
		{verified(x509.CertificateInvalidError{Cert: future, Reason: x509.NotAuthorizedToSign}), false},
		{verified(x509.UnknownAuthorityError{}), false},
		{verified(x509.InsecureAlgorithmError(1)), false},
		{responded{404, before}, false},
	} {
		for lasting, want := range map[bool]bool{true: tt.again, false: false} {
			p, _ := virtual()
			p.MaxAttempts = 2
			calls := 0
			op := func(context.Context) error { calls++; return tt.err }
			if lasting {
				_ = retry.Supervise(t.Context(), p, 1, op)
			} else {
				_ = retry.Run(t.Context(), p, op)
			}
			if got := calls > 1; got != want {
				t.Errorf("%T: %v: repeated: %v, want %v; lasting: %v", tt.err, tt.err, got, want, lasting)
			}
		}
	}
}

// A body that was cut has no error but that of its syntax, wherever the cut is.
func TestDocumentThatWasCut(t *testing.T) {
	type document struct {
		A any `json:"a" xml:"a"`
	}
	for _, text := range []string{
		`{"a": [true, false, null, -1.25e+10, "text \u00e9 \n", {}], "b": {"c": 0.5}}`, `[tru`, `-`, `1.`, `2e`, `"\`, `"\u12`,
	} {
		for i := range len(text) {
			body := []byte(text[:i])
			err := json.Unmarshal(body, new(any))
			if err == nil {
				continue // a number may be complete
			}
			if got := retry.DefaultClassifier(fmt.Errorf("body: %w", err)); got != retry.Transient {
				t.Errorf("JSON %q: %v is %v, want transient", body, err, got)
			}
			if v := (retry.Policy{}).Judge(err); v.Undone {
				t.Errorf("JSON %q: nothing is proven", body)
			}
			if err := json.NewDecoder(bytes.NewReader(body)).Decode(new(any)); retry.DefaultClassifier(err) == retry.Permanent {
				t.Errorf("JSON %q: %v is permanent for a Decoder", body, err)
			}
		}
	}
	page := `<?xml version="1.0"?><document b="1"><!-- c --><a>text &amp; more</a><![CDATA[x]]></document>`
	for i := 1; i < len(page); i++ {
		err := xml.Unmarshal([]byte(page[:i]), new(document))
		if got := retry.DefaultClassifier(err); got == retry.Permanent {
			t.Errorf("XML %q: %v is permanent", page[:i], err)
		}
	}
	for _, text := range []string{"<html>", "{]", `{"a" 1}`, "nul1", `[1,]`, "{} {}", `"\x"`, "tr\x00", "-x", "01"} {
		if err := json.Unmarshal([]byte(text), new(any)); retry.DefaultClassifier(err) != retry.Permanent {
			t.Errorf("JSON %q: %v is %v, want permanent", text, err, retry.DefaultClassifier(err))
		}
	}
	for _, text := range []string{"<a></b>", "<a b></a>", "<a>&x;</a>"} {
		if err := xml.Unmarshal([]byte(text), new(document)); retry.DefaultClassifier(err) != retry.Permanent {
			t.Errorf("XML %q: %v is %v, want permanent", text, err, retry.DefaultClassifier(err))
		}
	}
}

// postgres has the fields of pgx's errors, libpq those of lib/pq's.
type (
	postgres struct{ Code, Routine, SchemaName string }
	libpq    struct{ Code, Routine, Schema string }
)

func (e *postgres) Error() string    { return "ERROR: " + e.Code }
func (e *postgres) SQLState() string { return e.Code }
func (e *libpq) Error() string       { return "pq: " + e.Code }
func (e *libpq) SQLState() string    { return e.Code }

func TestPostgresDuringAMigration(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want retry.Class
	}{
		{&postgres{"0A000", "RevalidateCachedQuery", ""}, retry.Unprocessed},
		{&libpq{"0A000", "RevalidateCachedQuery", ""}, retry.Unprocessed},
		{&postgres{"0A000", "transformStmt", ""}, retry.Permanent},
		{sqlState("0A000"), retry.Permanent},
		{&postgres{"42P01", "RevalidateCachedQuery", ""}, retry.Permanent},
		{&postgres{"23505", "_bt_check_unique", "pg_catalog"}, retry.Transient},
		{&libpq{"23505", "_bt_check_unique", "pg_catalog"}, retry.Transient},
		{&postgres{"23505", "_bt_check_unique", "public"}, retry.Permanent},
		{&postgres{"23503", "", "pg_catalog"}, retry.Permanent},
		{sqlState("23505"), retry.Permanent},
		{&postgres{"42P07", "", ""}, retry.Permanent},
		{&postgres{"42710", "", ""}, retry.Permanent},
	} {
		if got := retry.DefaultClassifier(fmt.Errorf("migrate: %w", tt.err)); got != tt.want {
			t.Errorf("%+v is %v, want %v", tt.err, got, tt.want)
		}
	}
}

// Each class of PostgreSQL's appendix A, and the codes that differ from their class.
func TestSQLStateClasses(t *testing.T) {
	for want, states := range map[retry.Class]string{
		retry.Unknown: "00000 01000 02000 08P01 25P02 26000 57000 57014 HV000 XX000",
		retry.Permanent: "09000 0A000 0B000 0F000 0L000 0P000 0Z000 10608 20000 21000 22000 22001 23505 24000 25000 25001 27000 28P01 2B000 2D000 " +
			"2F000 34000 38000 39000 3B000 3D000 3F000 42601 44000 54000 54001 54011 54023 55P02 55P04 57P04 P0000 P0001 P0002 P0003 P0004 " +
			"03000 40002 58P01 58P02 F0000 XX001 XX002",
		retry.Transient:   "08000 08001 08003 08004 08006 08007 25006 25P03 25P04 40001 40003 40P01 55000 55006 55P03 57P01 57P02 57P05 58000 58030 72000",
		retry.Throttled:   "53000 53100 53200 53300 53400",
		retry.Unprocessed: "57P03",
	} {
		for state := range strings.FieldsSeq(states) {
			if got := retry.DefaultClassifier(sqlState(state)); got != want {
				t.Errorf("SQLSTATE %s is %v, want %v", state, got, want)
			}
		}
	}
}

// AWS's services say of these that the same call may succeed later, whatever the status.
func TestAWSWordsGoBeforeTheStatus(t *testing.T) {
	for want, words := range map[retry.Class]string{
		retry.Transient: "OperationAborted OperationAbortedException ConditionalRequestConflict IDPCommunicationError OpenIdIdpCommunicationError " +
			"ConcurrentModification ConcurrentModificationException ConcurrentReferenceUpdateException ConcurrentOperationException " +
			"ConcurrentUpdateException ConcurrentTagAccess ConcurrentAccess ResourceConcurrentModificationException EntityTemporarilyUnmodifiable " +
			"ModelStreamErrorException TransactionConflictException RetryableConflictException ResourceDataSyncConflictException StaleTag " +
			"AuthorizationPendingException ReportInProgress OperationInProgressException RemediationInProgressException " +
			"PolicyChangesInProgressException LifecyclePolicyPreviewInProgressException FinalizingOrganizationException " +
			"SnapStartNotReadyException StatisticsNotReadyYetException WorkUnitsNotReadyYetException NotReadyException DatabaseResumingException " +
			"ResourcePropagationDelayException QueueDeletedRecently AWS.SimpleQueueService.QueueDeletedRecently InvalidEventSubscriptionState " +
			"InvalidClusterParameterGroupState CopyToRegionDisabledFault SnapshotCopyDisabledFault DependentServiceUnavailableFault " +
			"EC2InstanceUnavailableException OutpostOfflineException EndpointTemporarilyUnavailableException RetryLatestCommitFailedException " +
			"FleetCapacityExceededException GameSessionFullException OutOfCapacityException FederationSourceRetryableException " +
			"OperationTimeoutException TagOperationException WAFTagOperationException WAFUnavailableEntityException " +
			"WAFServiceLinkedRoleErrorException InternalErrorException InternalServerException InternalServiceException " +
			"InternalServiceErrorException ServiceTemporarilyUnavailableException ServiceUnavailableException",
		retry.Throttled: "ThrottlingException Throttled KMSThrottling KmsThrottled KMSThrottlingException KMS.ThrottlingException TooManyUpdates " +
			"LimitExceededException OpsMetadataTooManyUpdatesException SlowDownException RateLimitExceededException RateExceededException RequestLimitExceededException " +
			"RequestThrottleException DependencyThrottle DependentServiceRequestThrottlingFault ConcurrentLimitExceededException " +
			"ConcurrentRunsExceededException MaxConcurrentQueriesException ActiveStatementsExceededException",
		retry.Permanent: "NoSuchKey AccessDenied ConditionalCheckFailedException BucketAlreadyExists " +
			"ConflictException ResourceInUseException ResourceConflictException ResourceNotReadyException InvalidResourceStateException " +
			"WAFOptimisticLockException BackupInProgress",
	} {
		for word := range strings.FieldsSeq(words) {
			for _, status := range []int{400, 409, 424} {
				if got := retry.DefaultClassifier(operation{responded{awsStatus(status), code(word)}}); got != want {
					t.Errorf("%s with status %d is %v, want %v", word, status, got, want)
				}
			}
		}
	}
}

// rpcError is an error of JSON-RPC, as go-ethereum has it.
type rpcError int

func (e rpcError) Error() string  { return fmt.Sprint(int(e)) }
func (e rpcError) ErrorCode() int { return int(e) }

func TestJSONRPCCodes(t *testing.T) {
	for want, codes := range map[retry.Class][]int{
		retry.Permanent: {-32700, -32600, -32601, -32602, 3},
		retry.Throttled: {-32005},
		retry.Unknown:   {-32603, -32000, -32001, 0, 1, 4, -32701},
	} {
		for _, c := range codes {
			if got := retry.DefaultClassifier(fmt.Errorf("call: %w", rpcError(c))); got != want {
				t.Errorf("code %d is %v, want %v", c, got, want)
			}
		}
	}
}

// writeErrors is that of kafka-go: an error for each message, nil for one that was written.
type writeErrors []error

func (writeErrors) Error() string { return "kafka write errors" }

func TestSliceOfErrorsJoinsThem(t *testing.T) {
	refused := dial(syscall.ECONNREFUSED)
	for _, tt := range []struct {
		err  error
		want retry.Class
	}{
		{writeErrors{refused, refused}, retry.Unprocessed},
		{writeErrors{refused, nil}, retry.Transient}, // a message was written
		{writeErrors{nil, status(404), nil}, retry.Permanent},
		{writeErrors{errDown, status(429)}, retry.Throttled},
		{fmt.Errorf("write: %w", writeErrors{syscall.ECONNRESET, status(404)}), retry.Transient},
		{writeErrors{}, retry.Unknown},
		{writeErrors(nil), retry.Unknown},
		{writeErrors{nil}, retry.Unknown},
	} {
		if got := retry.DefaultClassifier(tt.err); got != tt.want {
			t.Errorf("%#v is %v, want %v", tt.err, got, tt.want)
		}
	}
	v := retry.Policy{}.Judge(writeErrors{retry.Undone(errDown), nil})
	if v.Undone {
		t.Error("a message was written, but the verdict is Undone")
	}
	if v := (retry.Policy{}).Judge(writeErrors{errDown, retry.After(errDown, time.Minute)}); v.Hint != time.Minute {
		t.Errorf("the wait is %v, want a minute", v.Hint)
	}
}

// go-git has errors without a type for the statuses 401, 403 and 404.
func TestGitErrors(t *testing.T) {
	for text, want := range map[string]retry.Class{
		"authentication required": retry.Permanent, "authorization failed": retry.Permanent, "invalid auth method": retry.Permanent,
		"repository not found": retry.Permanent, "remote repository is empty": retry.Unknown, "Authorization failed": retry.Unknown,
	} {
		if got := retry.DefaultClassifier(fmt.Errorf("%w: see the log", errors.New(text))); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}
