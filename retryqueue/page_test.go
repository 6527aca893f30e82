package retryqueue_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
)

type rpcError int

func (e rpcError) Error() string  { return strconv.Itoa(int(e)) }
func (e rpcError) ErrorCode() int { return int(e) }

// The list in the documentation of Patient has the codes that end a message, and no others. So has
// the row for HTTP of docs/queues.md.
func TestThePagesSayWhichCodesEndAMessage(t *testing.T) {
	ends := func(err error) bool {
		return retryqueue.Delivery{Number: 1, Stored: now, Now: now}.After(retry.Policy{}, err).Action == retryqueue.Dead
	}
	var statuses, classes, rpcs []string
	for code := 400; code < 600; code++ {
		if ends(status(code)) {
			statuses = append(statuses, strconv.Itoa(code))
		}
	}
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, a := range digits {
		for _, b := range digits {
			if class := string([]rune{a, b}); ends(state(class + "ZZZ")) {
				classes = append(classes, class)
			}
		}
	}
	for n := range 10 {
		if code := fmt.Sprintf("P000%d", n); ends(state(code)) {
			classes = append(classes, code)
		}
	}
	for code := -33000; code < 100; code++ {
		if ends(rpcError(code)) {
			rpcs = append(rpcs, strconv.Itoa(code))
		}
	}
	doc := page(t, "patient.go")
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"HTTP":           {cut(t, doc, "HTTP", ", also"), statuses},
		"docs/queues.md": {cut(t, page(t, "../docs/queues.md"), "| HTTP |", ", a header"), statuses},
		"SQLSTATE":       {cut(t, doc, "SQLSTATE classes", ";"), classes},
		"JSON-RPC":       {cut(t, doc, "JSON-RPC", ";"), rpcs},
		"gRPC":           {cut(t, doc, "a line end in a header;", " of gRPC, Connect, Twirp;"), messages(t, "grpc")},
		"gRPC, page":     {cut(t, page(t, "../docs/queues.md"), "| gRPC, Connect, Twirp |", " |"), messages(t, "grpc")},
	} {
		got := codes(tt.text)
		slices.Sort(got)
		slices.Sort(tt.want)
		if len(got) == 0 || !slices.Equal(got, tt.want) {
			t.Errorf("%s: the list has %v, but a message ends by %v", name, got, tt.want)
		}
	}
}

// page returns a file without comment marks and line ends.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", "")), " ")
}

// cut returns what stands in text between two others.
func cut(t *testing.T, text, from, to string) string {
	t.Helper()
	_, text, found := strings.Cut(text, from)
	text, _, ends := strings.Cut(text, to)
	if !found || !ends {
		t.Fatalf("no text from %q to %q", from, to)
	}
	return text
}

// codes returns the numbers and codes of a list: "400, 412 to 414 and P0001".
func codes(text string) (all []string) {
	text = regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(text, "")
	for _, m := range regexp.MustCompile(`([A-Z]+_[A-Z_]+|P?-?\d+)(?: to (P?)(\d+))?`).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
		if m[3] == "" {
			continue
		}
		from, _ := strconv.Atoi(strings.TrimPrefix(m[1], m[2]))
		to, _ := strconv.Atoi(m[3])
		for n := from + 1; n <= to; n++ {
			all = append(all, m[2]+fmt.Sprintf("%0*d", len(m[3]), n))
		}
	}
	return all
}

// messages returns the names of the codes of a vendor's table that blame the message.
func messages(t *testing.T, vendor string) (names []string) {
	t.Helper()
	table, err := os.ReadFile("../internal/clienterr/oracle/" + vendor + ".tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if cells := strings.Split(strings.TrimSpace(line), "\t"); len(cells) == 5 && strings.Contains(cells[4], "message") {
			names = append(names, strings.ToUpper(strings.TrimPrefix(regexp.MustCompile(`[A-Z]`).ReplaceAllString(cells[1], "_$0"), "_")))
		}
	}
	return names
}
