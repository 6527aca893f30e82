package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
)

// An attempted is how an attempt may end, by which the pages say whether it is retried.
type attempted struct {
	name, row, rule string // the beginnings of a row of docs/grpc.md, and of a rule of doc.go
	server          func(testing.TB) string
	dialing         func() []grpc.DialOption
	calling         func() []grpc.CallOption
	metadata        []string
	request         any
	timeout         time.Duration
	unready         bool
	proof           bool // that nothing happened, for a row that says "only with proof"
}

// Rows of docs/grpc.md, and rules of doc.go.
const (
	rowConnection, ruleUnsent       = "no connection", "An attempt that never reached a server"
	rowCredentials                  = "the credentials failed"
	rowAsked, ruleAsked             = "UNAVAILABLE, RESOURCE_EXHAUSTED or ABORTED", "UNAVAILABLE, RESOURCE_EXHAUSTED and ABORTED"
	rowWait, ruleBroken             = "INTERNAL or UNKNOWN, and", "INTERNAL, UNKNOWN and CANCELLED"
	rowUnavailable, ruleUnavailable = "UNAVAILABLE, DEADLINE_EXCEEDED", "UNAVAILABLE, DEADLINE_EXCEEDED"
	rowTooLarge, ruleAnswer         = "RESOURCE_EXHAUSTED after", "Everything else"
	rowBroken                       = "INTERNAL, UNKNOWN or CANCELLED made by grpc"
	rowAnswer                       = "INTERNAL, UNKNOWN, CANCELLED or ABORTED from"
	rowUnencoded, ruleUnencoded     = "the request cannot be", "A request that grpc cannot"
	rowPushback, rulePushback       = "a pushback that is negative", "With a pushback"
	rowDropped, ruleDropped         = "the load balancing policy dropped", "An attempt that a load balancing policy has dropped"
	rowRefusedCredentials           = "credentials returned a status"
	rowInterceptor, ruleInterceptor = "an error without a status", "An error without a status"
)

func answers(h handler) func(testing.TB) string {
	return func(t testing.TB) string { return serve(t, h).addr }
}

func writes(a answer) func(testing.TB) string {
	return func(t testing.TB) string { return serveFrames(t, a).addr }
}

// attemptsOf returns the ends of attempts that the pages speak of.
func attemptsOf() (all []attempted) {
	add := func(name, row, rule string, a attempted) {
		a.name, a.row, a.rule = name, row, rule
		all = append(all, a)
	}
	add("refused", rowConnection, ruleUnsent, attempted{unready: true, server: func(t testing.TB) string {
		l := listen(t)
		l.Close()
		return l.Addr().String()
	}})
	silent := func(t testing.TB) string { // it accepts, and says nothing
		l := listen(t)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { c.Close() })
			}
		}()
		return l.Addr().String()
	}
	add("not ready in time", rowConnection, ruleUnsent, attempted{unready: true, server: silent, timeout: 20 * time.Millisecond})
	add("credentials", rowCredentials, ruleUnsent, attempted{dialing: func() []grpc.DialOption {
		return []grpc.DialOption{grpc.WithPerRPCCredentials(&tokens{failures: 9})}
	}})
	add("credentials of the call", rowCredentials, ruleUnsent, attempted{calling: func() []grpc.CallOption {
		return []grpc.CallOption{grpc.PerRPCCredentials(&tokens{failures: 9})}
	}})
	for _, c := range []codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.Aborted} {
		add(c.String()+", RetryInfo", rowAsked, ruleAsked, attempted{server: answers(always(hinted(c, time.Millisecond)))})
		for _, ms := range []string{"0", "1"} {
			add(c.String()+", pushback "+ms, rowAsked, ruleAsked, attempted{server: answers(pushing(c, ms))})
		}
		for _, values := range [][]string{{"-1"}, {"x"}, {""}, {"1", "1"}} {
			add(fmt.Sprint(c, ", pushbacks ", values), rowPushback, rulePushback, attempted{server: answers(pushing(c, values...))})
		}
	}
	for _, c := range []codes.Code{codes.Internal, codes.Unknown} {
		add(c.String()+", RetryInfo", rowWait, ruleBroken, attempted{server: answers(always(hinted(c, time.Millisecond)))})
		add(c.String()+", pushback 1", rowWait, ruleBroken, attempted{server: answers(pushing(c, "1"))})
		add(c.String()+", pushback 0", rowAnswer, ruleAnswer, attempted{server: answers(pushing(c, "0"))})
		add(c.String()+", RetryInfo 0", rowAnswer, ruleAnswer, attempted{server: answers(always(hinted(c, 0)))})
	}
	for _, c := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted} {
		add(c.String(), rowUnavailable, ruleUnavailable, attempted{server: answers(always(fail(c)))})
		add(c.String()+", RetryInfo 0", rowUnavailable, ruleUnavailable, attempted{server: answers(always(hinted(c, 0)))})
	}
	add("AttemptTimeout", rowUnavailable, ruleUnavailable, attempted{timeout: 20 * time.Millisecond, server: answers(func(_ int, s grpc.ServerStream, _ string) error {
		<-s.Context().Done()
		return nil
	})})
	add("too large", rowTooLarge, ruleUnavailable, attempted{server: answers(func(_ int, s grpc.ServerStream, _ string) error {
		return errors.Join(s.SendHeader(nil), fail(codes.ResourceExhausted))
	})})
	add("a proxy's page", rowBroken, ruleBroken, attempted{server: writes(page("200"))})
	add("a reset stream", rowBroken, ruleBroken, attempted{server: writes(rst(2))})
	add("a canceled stream", rowBroken, ruleBroken, attempted{server: writes(rst(8))})
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		switch c {
		case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		default:
			add(c.String(), rowAnswer, ruleAnswer, attempted{server: answers(always(fail(c)))})
		}
	}
	add("not UTF-8", rowUnencoded, ruleUnencoded, attempted{request: wrapperspb.String("\xff")})
	add("a bad name", rowUnencoded, ruleUnencoded, attempted{metadata: []string{"a b", "c"}})
	for name := range drops {
		add(name, rowDropped, ruleDropped, attempted{dialing: func() []grpc.DialOption {
			return []grpc.DialOption{grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"dropping_` + name + `": {}}]}`)}
		}})
	}
	add("credentials with a status", rowRefusedCredentials, ruleDropped, attempted{dialing: func() []grpc.DialOption {
		return []grpc.DialOption{grpc.WithPerRPCCredentials(judged{})}
	}})
	for name, err := range map[string]error{"a plain error": errors.New("no"), "with proof": retry.Undone(errors.New("no"))} {
		add(name, rowInterceptor, ruleInterceptor, attempted{proof: name == "with proof", dialing: func() []grpc.DialOption {
			return []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
				return err
			})}
		}})
	}
	return all
}

// judged are credentials that fail with a status.
type judged struct{}

func (judged) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return nil, status.Error(codes.Unavailable, "no token")
}
func (judged) RequireTransportSecurity() bool { return false }

// retried reports whether a call whose attempts all end so is retried.
func (a attempted) retried(t *testing.T, method string) bool {
	var r told
	p := four()
	p.MaxAttempts, p.AttemptTimeout, p.Hooks = 2, a.timeout, r.hooks()
	addr := ""
	if a.server == nil {
		a.server = answers(func(_ int, s grpc.ServerStream, in string) error { return reply(s, in) })
	}
	addr = a.server(t)
	var opts []grpc.DialOption
	opts = append(opts, (&retrygrpc.Client{Policy: p}).DialOptions()...)
	if a.dialing != nil {
		opts = append(opts, a.dialing()...)
	}
	cc := dial(t, addr, nil, opts...)
	if !a.unready {
		ready(t, cc)
	}
	if a.rule == ruleDropped {
		picks.Store(1) // the next one is dropped
	}
	if a.request == nil {
		a.request = wrapperspb.String("hello")
	}
	ctx := within(t)
	if a.metadata != nil {
		ctx = metadata.AppendToOutgoingContext(ctx, a.metadata...)
	}
	var calling []grpc.CallOption
	if a.calling != nil {
		calling = a.calling()
	}
	err := cc.Invoke(ctx, method, a.request, new(wrapperspb.StringValue), calling...)
	if err == nil {
		t.Errorf("%s, %s: no error", a.name, method)
	}
	return len(r.attempts) > 1
}

// The table of docs/grpc.md and the rules of doc.go say which calls are retried.
func TestThePagesSayWhichCallsAreRetried(t *testing.T) {
	rows, rules := tableOf(t, "| the attempt ended with |"), rulesOf(t)
	used := map[string]bool{}
	for _, a := range attemptsOf() {
		if a.rule == ruleDropped && dropsAreUnseen() {
			continue
		}
		get, pay := a.retried(t, get), a.retried(t, pay)
		row := find(t, rows, a.row)
		used[row[0]] = true
		says := func(cell string) bool {
			return strings.HasPrefix(cell, "yes") || strings.HasPrefix(cell, "as `retry.Do`") || strings.HasPrefix(cell, "only with proof") && a.proof
		}
		if says(row[1]) != get || says(row[2]) != pay {
			t.Errorf("%s: retried %t, and %t if the method is not idempotent; docs/grpc.md says %q and %q", a.name, get, pay, row[1], row[2])
		}
		rule := find(t, rules, a.rule)[0]
		used[rule] = true
		anyMethod := strings.Contains(rule, "retried for any method") || a.proof
		idempotent := strings.Contains(rule, "if the method is idempotent") || a.rule == ruleInterceptor
		if a.row == rowTooLarge { // to which the rule's last words are the exception
			anyMethod, idempotent = false, false
		}
		if get != (anyMethod || idempotent) || pay != anyMethod {
			t.Errorf("%s: retried %t, and %t if the method is not idempotent; doc.go says %q", a.name, get, pay, rule)
		}
	}
	for _, line := range append(rows, rules...) {
		if !used[line[0]] {
			t.Errorf("no attempt is as the pages say: %q", line[0])
		}
	}
}

// find returns the line that begins so.
func find(t *testing.T, lines [][]string, begins string) (found []string) {
	t.Helper()
	for _, line := range lines {
		if strings.HasPrefix(line[0], begins) {
			if found != nil {
				t.Fatalf("two lines begin with %q", begins)
			}
			found = line
		}
	}
	if found == nil {
		t.Fatalf("no line begins with %q", begins)
	}
	return found
}

// rulesOf returns the first list of doc.go, one item in each.
func rulesOf(t *testing.T) (rules [][]string) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^//   - (.*\n(//     .*\n)*)`).FindAllStringSubmatch(string(doc), -1)
	for _, m := range list {
		rules = append(rules, []string{strings.Join(strings.Fields(strings.ReplaceAll(m[1], "//", "")), " ")})
	}
	return rules
}

// tableOf returns the cells of the table of docs/grpc.md that begins so.
func tableOf(t *testing.T, begins string) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile("../docs/grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), begins)
	table, _, _ = strings.Cut(table, "\n\n")
	if !ok {
		t.Fatalf("the page has no table that begins with %q", begins)
	}
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}
