package main

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// aws reads the models of AWS's services. A code is throttle or retry if its shape says so,
// or its status: the SDK repeats 500, 502, 503 and 504. What the codes of the SDK's own
// lists mean is in the table by hand, and so is what a service's text says.
//
// A code has a row of its own for a service in which its verdict is another than in most.
func aws(dir string) ([]row, error) {
	files, err := filepath.Glob(filepath.Join(dir, "models", "apis", "*", "*", "api-2.json"))
	if err != nil {
		return nil, err
	}
	type shape struct {
		Error struct {
			Code           string
			HTTPStatusCode int
		}
		Exception bool
		Fault     bool
		Retryable *struct{ Throttling bool }
	}
	type judged struct {
		service, verdict string
		status           int
	}
	codes := map[string][]judged{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var model struct {
			Metadata   struct{ ServiceID string }
			Operations map[string]struct {
				Errors []struct{ Shape string }
			}
			Shapes map[string]shape
		}
		if err := json.Unmarshal(text, &model); err != nil {
			return nil, err
		}
		errs := map[string]bool{}
		for name, s := range model.Shapes {
			errs[name] = s.Exception
		}
		for _, op := range model.Operations {
			for _, e := range op.Errors {
				errs[e.Shape] = true
			}
		}
		for name, yes := range errs {
			s := model.Shapes[name]
			if !yes {
				continue
			}
			j := judged{service: model.Metadata.ServiceID, status: s.Error.HTTPStatusCode}
			if j.status == 0 {
				j.status = 400
				if s.Fault {
					j.status = 500
				}
			}
			switch {
			case s.Retryable != nil && s.Retryable.Throttling, j.status == 429:
				j.verdict = "throttle"
			case s.Retryable != nil, j.status >= 500 && j.status != 501:
				j.verdict = "retry"
			default:
				j.verdict = "no"
			}
			code := cmp.Or(s.Error.Code, name)
			if !slices.Contains(codes[code], j) {
				codes[code] = append(codes[code], j)
			}
		}
	}
	var rows []row
	for code, all := range codes {
		slices.SortFunc(all, func(a, b judged) int { return cmp.Compare(a.service, b.service) })
		count := map[[2]string]int{}
		var most [2]string
		for _, j := range all {
			key := [2]string{j.verdict, strconv.Itoa(j.status)}
			if count[key]++; count[key] > count[most] {
				most = key
			}
		}
		rows = append(rows, row{code, most[1], most[0]})
		for _, j := range all {
			if j.verdict != most[0] && (j.verdict != "throttle" || j.status != 429) && j.status < 500 {
				r := row{j.service + " " + code, strconv.Itoa(j.status), j.verdict}
				if !slices.Contains(rows, r) {
					rows = append(rows, r)
				}
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.code, b.code) })
	return rows, nil
}
