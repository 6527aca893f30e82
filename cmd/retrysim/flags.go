package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// value adds a flag. Whatever parse cannot read it refuses in one line that says
// what is wanted.
func value[T any](o *options, p *T, name, usage string, parse func(string) (T, error)) {
	o.Func(name, usage, func(s string) error {
		v, err := parse(s)
		if err == nil {
			*p = v
		}
		return err
	})
}

func seed(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("want a whole number, such as 1")
	}
	return n, nil
}

// count reads a whole number that is not zero, and not more than a machine can hold.
func count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 1e7 {
		return 0, fmt.Errorf("want a whole number from 1 to 10000000, such as 100")
	}
	return n, nil
}

// share reads a number between 0 and 1.
func share(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return 0, fmt.Errorf("want a number from 0 to 1, such as 0.1")
	}
	return f, nil
}

// shareOrNone is share, but zero means none: to package storm that is a negative one.
func shareOrNone(s string) (float64, error) {
	f, err := share(s)
	if err == nil && f == 0 {
		f = -1
	}
	return f, err
}

// rate reads a number per second: 200 or 200/s.
func rate(s string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "/s"), 64)
	if err != nil || !(f > 0 && f <= 1e9) {
		return 0, fmt.Errorf("want a number per second, such as 200/s")
	}
	return f, nil
}

// duration reads a time that is not zero.
func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("want a time longer than zero, such as 100ms or 2s")
	}
	return d, nil
}

// orNone is duration, but zero means none: to package storm that is a negative one.
func orNone(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil && d == 0 {
		return -1, nil
	}
	return duration(s)
}

// instant reads a time since the start.
func instant(s string) (time.Duration, error) {
	d, err := orNone(s)
	return max(d, 0), err
}

// list reads what parse does, separated by commas.
func list[T any](parse func(string) (T, error)) func(string) ([]T, error) {
	return func(s string) ([]T, error) {
		var all []T
		for word := range strings.SplitSeq(s, ",") {
			v, err := parse(strings.TrimSpace(word))
			if err != nil {
				return nil, fmt.Errorf("%w, or several separated by commas", err)
			}
			all = append(all, v)
		}
		return all, nil
	}
}

func oneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		for _, word := range words {
			if s == word {
				return s, nil
			}
		}
		return "", fmt.Errorf("want one of %s", strings.Join(words, ", "))
	}
}
