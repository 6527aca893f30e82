package retryvet_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/goretry/retry/retryvet"
)

// Every check runs on every sample: what is right for one is right for all.
func TestMisuse(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), retryvet.Analyzer, "./misuse/...")
}

func TestLoopsByHand(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), retryvet.Analyzer, "./loopctx")
}
