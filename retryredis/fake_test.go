package retryredis_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goretry/retry/fleetpace"
	"github.com/goretry/retry/retryredis"
	"github.com/redis/go-redis/v9"
)

// fake is a client whose server replies as a test says.
type fake struct {
	redis.UniversalClient
	reply any
	err   error
}

func (f fake) EvalSha(context.Context, string, []string, ...any) *redis.Cmd {
	return redis.NewCmdResult(f.reply, f.err)
}

func TestFleetThatIsNotSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which waits for goroutines
		for _, f := range []*retryredis.Fleet{{Key: "k"}, {Client: fake{}}} {
			if a, err := f.Exchange(t.Context(), fleetpace.Report{}); err == nil {
				t.Errorf("%+v of %+v", a, f)
			}
			select {
			case <-f.News(t.Context()):
				t.Errorf("news of %+v", f)
			default:
			}
		}
	})
}

// An answer must be one of the law: else the store counts as away.
func TestAnswersThatAreNotOfTheLaw(t *testing.T) {
	const good = "17 3 3 10 20 5 10 0 0 5 5 0 1"
	r := fleetpace.Report{Take: 5, Patience: 60}
	want := fleetpace.Answer{Epoch: 17, Round: 3, Mode: fleetpace.Paced, Rate: 10, Speed: 20, Head: 5, Tail: 10, First: 5, Size: 5, News: true}
	exchange := func(reply any, err error) (fleetpace.Answer, error) {
		return (&retryredis.Fleet{Client: fake{reply: reply, err: err}, Key: "k"}).Exchange(t.Context(), r)
	}
	if a, err := exchange(good, nil); err != nil || a != want {
		t.Fatalf("%+v, %v; want %+v", a, err, want)
	}
	for _, bad := range []any{
		"", good + " 1", strings.Replace(good, "10", "x", 1), strings.Replace(good, "10", "NaN", 1), strings.Replace(good, "10", "1e999", 1),
		"17 3 259" + good[6:], "17 3 2.5" + good[6:], "17 3 -1" + good[6:], "17 3 4" + good[6:], // modes
		"17 3 3 10 20 5 10 0 0 4 6 0 1", // more than were wanted
		"17 3 3 0 0 5 10 0 0 5 5 0 1",   // no rate
		"17 3 3 10 99 5 10 0 0 5 5 0 1", // too fast
		int64(3), nil,
	} {
		if a, err := exchange(bad, nil); err == nil || a != (fleetpace.Answer{}) {
			t.Errorf("%q: %+v, %v", bad, a, err)
		}
	}
	down := errors.New("down")
	if a, err := exchange(good, down); !errors.Is(err, down) || a != (fleetpace.Answer{}) {
		t.Errorf("%+v, %v", a, err)
	}
}

// acl returns the line of the package documentation.
func acl(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line, found := strings.CutPrefix(line, "//\t~"); found {
			return "~" + line
		}
	}
	t.Fatal("doc.go has no line of an ACL")
	return ""
}
