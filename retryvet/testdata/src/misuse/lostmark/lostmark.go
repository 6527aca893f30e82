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
		fmt.Errorf("load: %v", retry.Stop(errGone)),                       // want `%v turns the error that retry.Stop marked into text`
		fmt.Errorf("load: %v", retry.Answer(errGone)),                     // want `%v turns the error that retry.Answer marked into text`
		fmt.Errorf("load: %v", retry.Refuse(errGone)),                     // want `%v turns the error that retry.Refuse marked into text`
		fmt.Errorf("load %d%%: %s", 1, retry.After(errGone, time.Second)), // want `%s turns the error that retry.After marked into text`
		fmt.Errorf("load: %v", retry.Undone(errGone)),                     // want `%v turns the error that retry.Undone marked into text`
		fmt.Errorf("load: %-10v", mark),                                   // want `%v turns the error that`
	}
}

func right() []error {
	return []error{
		fmt.Errorf("load: %w", retry.Stop(errGone)),
		retry.Stop(fmt.Errorf("load: %v", errGone)),
		fmt.Errorf("load %v: %w", errGone, retry.Stop(errGone)),
	}
}
