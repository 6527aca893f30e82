package loopctx

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

// Whatever leaves a loop, it goes on after its context has ended.

func again(*http.Response, error) bool { return false }
func ready() bool                      { return false }
func readyIn(context.Context) bool     { return false }

type client struct{ *http.Client }

func (c client) again(err error, req *http.Request, resp *http.Response, n int) (bool, string) {
	return false, ""
}

func judged(c client, req *http.Request) (resp *http.Response, err error) {
	for n := 0; ; {
		resp, err = c.Do(req)
		again, why := c.again(err, req, resp, n)
		if !again {
			log.Print(why)
			break
		}
		n++
		time.Sleep(time.Second) // want `this wait goes on after req.Context\(\) has ended`
	}
	return resp, err
}

func byStatus(ctx context.Context, c *http.Client, url string) (*http.Response, error) {
	for range 10 {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := c.Do(req)
		if resp != nil && resp.StatusCode < 500 {
			return resp, err
		}
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
	return nil, errGone
}

func byFunction(ctx context.Context, c *http.Client, req *http.Request) error {
	for {
		resp, err := c.Do(req.WithContext(ctx))
		if again(resp, err) {
			time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
			continue
		}
		return err
	}
}

func bySwitch(ctx context.Context) error {
	for {
		switch err := try(ctx); {
		case err == nil:
			return nil
		case errors.Is(err, errGone):
			return err
		}
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

func bySwitchOfError(ctx context.Context) error {
	for {
		switch err := try(ctx); err {
		case nil, errGone:
			return err
		}
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

func byGoto(ctx context.Context) error {
tryAgain:
	err := try(ctx)
	if errors.Is(err, errGone) {
		return err
	}
	if err != nil {
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
		goto tryAgain
	}
	return nil
}

func byRecursion(ctx context.Context, n int) error {
	err := try(ctx)
	if err != nil && n > 0 {
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
		return byRecursion(ctx, n-1)
	}
	return err
}

func byCondition(ctx context.Context) (s string) {
	for done := false; !done; {
		var err error
		s, err = get(ctx)
		done = err == nil
		if !done {
			time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
		}
	}
	return s
}

func byLabel(ctx context.Context) {
outer:
	for {
		for range 3 {
			if try(ctx) == nil {
				break outer
			}
		}
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

func polls(ctx context.Context) {
	for !ready() {
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

func pollsIn(ctx context.Context) {
	for !readyIn(ctx) {
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

func forFile(ctx context.Context, name string) {
	for {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			return
		}
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

func ownContext(ctx context.Context) {
	for {
		own, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := get(own)
		cancel()
		if err != nil {
			return
		}
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

func otherSelect(ctx context.Context, stop chan struct{}) {
	for {
		_ = try(ctx)
		select {
		case <-stop:
			return
		default:
		}
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

func eachItem(ctx context.Context, items []string) {
	for range items {
		_ = try(ctx)
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
}

func started(ctx context.Context) {
	go func() {
		for {
			_ = try(ctx)
			time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
		}
	}()
}

// These end, if not at once.

func checks(ctx context.Context) {
	for ctx.Err() == nil {
		_ = ready()
		time.Sleep(time.Second)
	}
}

func checksBoth(ctx context.Context) error {
	for {
		if err := try(ctx); err != nil && ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Second)
	}
}

func checksIn(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		_ = ready()
		time.Sleep(time.Second)
	}
}

func selects(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		default:
		}
		_ = ready()
		time.Sleep(time.Second)
	}
}

func selectsItsChannel(ctx context.Context) {
	for {
		_ = ready()
		if done := ctx.Done(); done != nil {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
				continue
			}
		}
		time.Sleep(time.Second) // of a context that never ends
	}
}

func waitsElsewhere(ctx context.Context) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if done := ctx.Done(); done != nil {
			select {
			case <-done:
				return err
			case <-time.After(time.Second):
				continue
			}
		}
		time.Sleep(time.Second)
	}
}

// It looks at the context before the next call only, and waits although it has ended.
func checksTooLate(ctx context.Context) error {
	for ctx.Err() == nil {
		if try(ctx) == nil {
			return nil
		}
		time.Sleep(time.Second) // want `this wait goes on after ctx has ended`
	}
	return ctx.Err()
}

func failureLeaves(ctx context.Context) error {
	for {
		s, err := get(ctx)
		if err != nil {
			return err
		}
		if s != "" {
			return nil
		}
		time.Sleep(time.Second)
	}
}

func endOfContextLeaves(ctx context.Context) {
	for {
		if err := try(ctx); errors.Is(err, context.Canceled) || errors.Is(err, errGone) {
			return
		}
		time.Sleep(time.Second)
	}
}

func endInASwitch(ctx context.Context) {
	for {
		switch err := try(ctx); err {
		case context.Canceled, errGone:
			return
		}
		time.Sleep(time.Second)
	}
}

func nilLeaves(ctx context.Context, c *http.Client, req *http.Request) (*http.Response, error) {
	for {
		resp, err := c.Do(req.WithContext(ctx))
		if resp == nil {
			return nil, err
		}
		if resp.StatusCode != 401 {
			return resp, nil
		}
		time.Sleep(time.Second)
	}
}

func againInContext(ctx context.Context) error {
	for {
		err := try(ctx)
		if !againIn(ctx, err) {
			return err
		}
		time.Sleep(time.Second)
	}
}

func againIn(context.Context, error) bool { return false }

func derived(ctx context.Context) {
	for {
		own, cancel := context.WithTimeout(ctx, time.Second)
		_, err := get(own)
		cancel()
		if err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// Nothing is called but what looks at values, tells or waits.
func only(ctx context.Context, words []string) {
	for _, word := range words {
		n, err := strconv.Atoi(word)
		log.Print(n, err)
		time.Sleep(time.Second)
	}
}

func once(ctx context.Context) error {
	if err := try(ctx); err == nil {
		return nil
	}
	time.Sleep(time.Second)
	return try(ctx)
}

// It may be meant to outlive the call that starts it.
func startsOther(ctx context.Context) {
	go func() {
		for {
			_ = ready()
			time.Sleep(time.Minute)
		}
	}()
}

// gin's and echo's contexts have the request.
type ginContext struct{ Request *http.Request }

func inGin(c *ginContext) {
	for !ready() {
		time.Sleep(time.Second) // want `this wait goes on after c.Request.Context\(\) has ended`
	}
}

type echoContext interface{ Request() *http.Request }

func inEcho(c echoContext) {
	for !ready() {
		time.Sleep(time.Second) // want `this wait goes on after c.Request\(\).Context\(\) has ended`
	}
}
