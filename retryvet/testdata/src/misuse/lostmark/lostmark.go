package lostmark

import (
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

var errGone = errors.New("gone")

func wrong() []error {
	mark := retry.Stop(errGone)
	return []error{
		fmt.Errorf("load: %v", retry.Stop(errGone)),                       // want `%v formats what retry.Stop marked as text`
		fmt.Errorf("load: %v", retry.Answer(errGone)),                     // want `%v formats what retry.Answer marked as text`
		fmt.Errorf("load: %v", retry.Refuse(errGone)),                     // want `%v formats what retry.Refuse marked as text`
		fmt.Errorf("load %d%%: %s", 1, retry.After(errGone, time.Second)), // want `%s formats what retry.After marked as text`
		fmt.Errorf("load: %-10v", mark),                                   // want `%v formats what`
	}
}

func right() []error {
	return []error{
		fmt.Errorf("load: %w", retry.Stop(errGone)),
		retry.Stop(fmt.Errorf("load: %v", errGone)),
		fmt.Errorf("load %v: %w", errGone, retry.Stop(errGone)),
	}
}
