package retryvet_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/goretry/retry/retryvet"
	"github.com/goretry/retry/retryvet/internal/samples"
)

const src = "testdata/src"

// Every check runs on every sample: what is right for one is right for all.
func TestMisuse(t *testing.T) {
	analysistest.Run(t, samples.Module(t, src), retryvet.Analyzer, "./misuse/...")
}

func TestLoopsByHand(t *testing.T) {
	analysistest.Run(t, samples.Module(t, src), retryvet.Analyzer, "./loopctx")
}
