package retry

import (
	"context"

	"github.com/goretry/retry/internal/part"
)

// FieldsMatter reports whether the fields of err, or of what it wraps, change what
// DefaultClassifier says of it.
func FieldsMatter(err error) bool {
	return judged(err, 0) != judged(err, system)
}

// Part is what package retryqueue makes of a delivery.
type Part = part.Part[Verdict, *Error]

// RunPart makes a part of a run.
func (p Policy) RunPart(ctx context.Context, x Part) { runPart(ctx, p, x) }
