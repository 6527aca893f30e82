package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// azureBlob reads the codes of Azure's Blob Storage. Their statuses are in Microsoft's
// reference only, so they are in the table by hand.
func azureBlob(dir string) ([]row, error) {
	return match(filepath.Join(dir, "bloberror", "error_codes.go"), `Code = "(\w+)"`, func(m []string) row { return row{m[1], "", "no"} })
}

// sentinels reads the texts of what a file of a module makes with errors.New.
func sentinels(file string) func(dir string) ([]row, error) {
	return func(dir string) ([]row, error) {
		return match(filepath.Join(dir, filepath.FromSlash(file)), `Err\w+ += errors\.New\("([^"]+)"\)`, func(m []string) row { return row{m[1], "", "never"} })
	}
}

// kafka reads franz-go's package kerr.
func kafka(dir string) ([]row, error) {
	return match(filepath.Join(dir, "pkg", "kerr", "kerr.go"), `&Error\{"(\w+)", (-?\d+), (true|false),`, func(m []string) row {
		r := row{m[2], m[1], "never"}
		if m[3] == "true" {
			r.verdict = "retry"
		}
		return r
	})
}

// kubernetes reads the reasons of Kubernetes' statuses. Which status a reason has is in its
// comment.
func kubernetes(dir string) ([]row, error) {
	return match(filepath.Join(dir, "pkg", "apis", "meta", "v1", "types.go"), `(?s)// Status code (\d+)[^\n]*\n\tStatusReason\w+ +StatusReason = "(\w+)"`, func(m []string) row {
		r := row{m[2], m[1], "never"}
		switch {
		case m[1] == "429":
			r.verdict = "throttle"
		case m[1] >= "500":
			r.verdict = "retry"
		}
		return r
	})
}

// mysql reads the numbers of MySQL and their SQLSTATEs.
func mysql(dir string) ([]row, error) {
	states := map[string]string{}
	_, err := match(filepath.Join(dir, "mysql", "state.go"), `(\w+): +"(\w{5})"`, func(m []string) row {
		states[m[1]] = m[2]
		return row{}
	})
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return match(filepath.Join(dir, "mysql", "errcode.go"), `(?m)^\t(Err\w+) += (\d+)`, func(m []string) row {
		if m[2] < "1004" { // words for texts
			return row{}
		}
		return row{m[2], cmp.Or(states[m[1]], "HY000") + " " + m[1], "no"}
	})
}

// nats reads errors.json. By its statuses 503 is temporary, and 500 says nothing.
func nats(dir string) ([]row, error) {
	text, err := os.ReadFile(filepath.Join(dir, "server", "errors.json"))
	if err != nil {
		return nil, err
	}
	var all []struct {
		Constant  string
		Code      int
		ErrorCode int `json:"error_code"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	var rows []row
	for _, e := range all {
		r := row{fmt.Sprint(e.ErrorCode), fmt.Sprint(e.Code, " ", e.Constant), "never"}
		switch {
		case e.Code == 503:
			r.verdict = "retry"
		case e.Code >= 500:
			r.verdict = "unknown"
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.code, b.code) })
	return rows, nil
}

// sqlstate reads PostgreSQL's codes, without those of success, warnings and no data. What
// npgsql repeats is in the table by hand.
func sqlstate(dir string) ([]row, error) {
	return match(filepath.Join(dir, "errcode.go"), `(?m)^\t(\w+) += "(\w{5})"`, func(m []string) row {
		if m[2] < "03" {
			return row{}
		}
		verdict := "no"
		if slices.Contains([]string{"22", "23", "42", "44"}, m[2][:2]) {
			verdict = "never"
		}
		return row{m[2], m[1], verdict}
	})
}

// match returns the rows that a file has by a pattern. A row without a code does not count.
func match(file, pattern string, found func(m []string) row) (rows []row, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		if r := found(m); r.code != "" && !slices.Contains(rows, r) {
			rows = append(rows, r)
		}
	}
	return rows, nil
}
