package harm_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/goretry/retry/internal/harm"
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1) // a bubble runs one goroutine at a time; more only look for work
	os.Exit(m.Run())
}

func TestTable(t *testing.T) {
	table := harm.NewTable(t)
	for _, w := range harm.Worlds() {
		for _, s := range subjects {
			f := table.Measure(w, s)
			if os.Getenv("RETRY_LONG") != "" || f.Harm() != "" {
				t.Log(w.ID(), "|", s.Name, "|", f, f.Harm())
			}
		}
		if os.Getenv("RETRY_LONG") == "" {
			break
		}
	}
}
