package nearest_test

import (
	"strings"
	"testing"

	"github.com/goretry/retry/internal/nearest"
)

func TestHint(t *testing.T) {
	flags := []string{"at", "rate", "processes", "service", "outage", "outage-answer", "seed", "seeds", "o"}
	for word, want := range map[string]string{
		"prosesses":              "processes", // another letter
		"proceses":               "processes", // one too few
		"proccesses":             "processes", // one too many
		"porcesses":              "processes", // swapped
		"proc":                   "processes", // cut short
		"Rate":                   "rate",
		"outage_answer":          "outage-answer",
		"sed":                    "seed", // not seeds
		"seedss":                 "seeds",
		"ta":                     "at",
		"x":                      "",
		"":                       "",
		"speed-of-light":         "",
		"workers":                "",
		"\xff\xfe":               "",
		strings.Repeat("r", 1e6): "",
	} {
		if want != "" {
			want = "; did you mean -" + want + "?"
		}
		if got := nearest.Hint(word, "-", flags...); got != want {
			t.Errorf("Hint(%.20q) = %q, want %q", word, got, want)
		}
	}
}
