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
		fmt.Errorf("load: %v", retry.Stop(errGone)),                       // want `%v makes a text of what retry.Stop marked`
		fmt.Errorf("load: %v", retry.Refuse(errGone)),                     // want `%v makes a text of what retry.Refuse marked`
		fmt.Errorf("load %d%%: %s", 1, retry.After(errGone, time.Second)), // want `%s makes a text of what retry.After marked`
		fmt.Errorf("load: %-10v", mark),                                   // want `%v makes a text`
	}
}

func right() []error {
	return []error{
		fmt.Errorf("load: %w", retry.Stop(errGone)),
		retry.Stop(fmt.Errorf("load: %v", errGone)),
		fmt.Errorf("load %v: %w", errGone, retry.Stop(errGone)),
	}
}
