package helpers

import (
	"io"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"
)

func ends(f func() error) bool {
	err := backoff.Retry(f, backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 3)) // want `(?s)not rewritten: the caller compares or asserts err, which is then a \*retry.Error: use errors.Is and errors.As; its error is now a .*By hand:\n\tretry.Run\(context.Background\(\), retry.Policy{\n\t\tMaxAttempts: 4,\n\t\tBackoff:     retry.Constant\(time.Second\),\n\t\tClassify: func\(err error\) retry.Class {\n\t\t\tif _, ok := errors.AsType\[\*backoff.PermanentError\]\(err\); ok {.*\n\t}, func\(context.Context\) error { return f\(\) }\)$`
	return err == io.EOF
}

func endsToo(f func() error) bool {
	err := retry.Do(f, retry.Attempts(3), retry.Delay(time.Second), retry.DelayType(retry.FixedDelay)) // want `(?s)By hand:\n\tretry.Run\(.*if !avast.IsRecoverable\(err\)`
	_, ok := err.(interface{ Temporary() bool })
	return ok
}
