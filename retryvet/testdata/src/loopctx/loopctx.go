package loopctx

import (
	"context"
	"errors"
	"time"
)

func try(context.Context) error           { return nil }
func get(context.Context) (string, error) { return "", nil }

func sleeps(ctx context.Context) error {
	for {
		if err := try(ctx); err != nil {
			time.Sleep(time.Second) // want `this wait goes on after ctx has ended: let retry.Run`
			continue
		}
		return nil
	}
}

func afterSuccessLeft(ctx context.Context, wait time.Duration) (err error) {
	for range 5 {
		if err = try(ctx); err == nil {
			return nil
		}
		time.Sleep(wait) // want `this wait goes on`
	}
	return err
}

func after(ctx context.Context, wait time.Duration) string {
	for i := 0; i < 3; i++ {
		s, err := get(ctx)
		if err == nil {
			return s
		}
		<-time.After(wait << i) // want `this wait goes on`
	}
	return ""
}

func selected(ctx context.Context) {
	for {
		err := try(ctx)
		if err == nil {
			break
		}
		select { // want `this wait goes on`
		case <-time.After(time.Second):
		}
	}
}

func alternative(ctx context.Context) {
	for {
		err := try(ctx)
		if err != nil {
			time.Sleep(time.Second) // want `this wait goes on`
		} else {
			break
		}
	}
}

func otherAlternative(ctx context.Context) {
	for {
		if err := try(ctx); err == nil {
			return
		} else {
			time.Sleep(time.Second) // want `this wait goes on`
		}
	}
}

func condition(ctx context.Context) {
	err := try(ctx)
	for err != nil {
		time.Sleep(time.Second) // want `this wait goes on`
		err = try(ctx)
	}
}

func literal(ctx context.Context) func() {
	return func() {
		for {
			if err := try(ctx); err != nil && !errors.Is(err, errGone) {
				time.Sleep(time.Second) // want `this wait goes on`
				continue
			}
			return
		}
	}
}

var errGone = errors.New("gone")

func right(ctx context.Context) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func short(ctx context.Context) {
	for {
		if try(ctx) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func noContext() {
	for {
		if err := try(context.Background()); err != nil {
			time.Sleep(time.Second)
			continue
		}
		return
	}
}

func periodic(ctx context.Context) {
	for {
		if err := try(ctx); err != nil {
			println(err.Error())
		}
		time.Sleep(time.Minute) // want `this wait goes on after ctx has ended`
	}
}

func worker(ctx context.Context) {
	for { // a success does not leave it
		if err := try(ctx); err != nil {
			time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
			continue
		}
		println("done one")
	}
}

func elsewhere(ctx context.Context) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		go func() { time.Sleep(time.Second) }()
		for range 3 {
			time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
		}
	}
}

func limited(ctx context.Context) error {
	for n := 1; ; n++ {
		err := try(ctx)
		if err == nil || n == 4 {
			return err
		}
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

func top(ctx context.Context) (err error) {
	for range 4 {
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
		if err = try(ctx); err == nil {
			return nil
		}
	}
	return err
}

func topButFirst(ctx context.Context) (err error) {
	for n := range 4 {
		if n > 0 {
			<-time.After(time.Second) // want `this wait goes on after ctx has ended`
		}
		if err = try(ctx); err != nil {
			continue
		}
		return nil
	}
	return err
}

func pollFirst(ctx context.Context, ready func() (bool, error)) error {
	for {
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
		ok, err := ready()
		if err != nil {
			return err
		}
		if ok {
			return nil
		}
	}
}

func either(ctx context.Context, stop bool) error {
	for {
		err := try(ctx)
		if err != nil || stop { // a success may go on
			return err
		}
		time.Sleep(time.Second)
	}
}
