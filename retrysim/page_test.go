package main

import (
	"flag"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// attribute returns the value of an attribute of a tag, and whether it has it.
func attribute(tag, name string) (value string, ok bool) {
	found := regexp.MustCompile(`\s` + name + `(?:="([^"]*)")?[\s>]`).FindStringSubmatch(tag)
	if found == nil {
		return "", false
	}
	return html.UnescapeString(found[1]), true
}

// A control is a flag of try, and has its default and its words.
func TestControlsAreFlagsOfTry(t *testing.T) {
	page, err := os.ReadFile("page/index.html")
	if err != nil {
		t.Fatal(err)
	}
	o := &options{FlagSet: flag.NewFlagSet("", flag.ContinueOnError)}
	newScenario(o)
	controls := 0
	for _, found := range regexp.MustCompile(`(?s)<select\b[^>]*>(.*?)</select>|<(?:input|textarea)\b[^>]*>`).FindAllStringSubmatch(string(page), -1) {
		tag, _, _ := strings.Cut(found[0], ">")
		tag += ">"
		name, ok := attribute(tag, "name")
		if !ok {
			continue // a word of the policy's text, or the others
		}
		controls++
		i := slices.IndexFunc(o.params, func(p param) bool { return p.name == name })
		if i < 0 {
			t.Errorf("%s: try has no such flag", tag)
			continue
		}
		p := o.params[i]
		initial, _ := attribute(tag, "value")
		want := p.text()
		kind, _ := attribute(tag, "type")
		switch {
		case found[1] != "":
			var words []string
			for _, option := range regexp.MustCompile(`(<option[^>]*>)([^<]*)</option>`).FindAllStringSubmatch(found[1], -1) {
				value, ok := attribute(option[1], "value")
				if !ok {
					value = option[2]
				}
				words = append(words, value)
			}
			initial = words[0]
			if got := strings.Join(words, " "); got != p.words {
				t.Errorf("%s has the choices %s, want %s", name, got, p.words)
			}
		case kind == "checkbox":
			if _, on := attribute(tag, "checked"); on {
				initial = "true"
			} else {
				initial = "false"
			}
		case name == "policy":
			want = policyDefault
		}
		if initial != want {
			t.Errorf("%s is %q, and the flag's default %q", name, initial, want)
		}
		steps, ok := attribute(tag, "data-steps")
		if ok && !slices.Contains(strings.Fields(steps), want) {
			t.Errorf("%s: the default is none of the steps %s", name, steps)
		}
		for _, step := range strings.Fields(steps) {
			if err := p.Set(step); err != nil {
				t.Errorf("%s: a step of %s: %v", name, step, err)
			}
		}
	}
	if controls < 10 {
		t.Errorf("%d controls: the page is not read", controls)
	}
}

// The page has a size at which one reads it.
func TestThePageIsSmall(t *testing.T) {
	lines := 0
	for _, pattern := range []string{"page/*.*", "page/static/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %q", pattern, err, files)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(text), "\n")
		}
	}
	if lines > 500 {
		t.Errorf("the page has %d lines, want at most 500", lines)
	}
}

// What a control of the policy offers is a word that a policy may have.
func TestChoicesArePolicies(t *testing.T) {
	page, err := os.ReadFile("page/index.html")
	if err != nil {
		t.Fatal(err)
	}
	choices := 0
	try := func(field, value string) {
		if value == "" || value == "none" || value == "default" {
			return
		}
		choices++
		if _, err := parse(field + "=" + value); err != nil {
			t.Errorf("%s=%s: %v", field, value, err)
		}
	}
	for _, control := range regexp.MustCompile(`(?s)<select data-field="(\w+)">(.*?)</select>`).FindAllStringSubmatch(string(page), -1) {
		for _, option := range regexp.MustCompile(`(<option[^>]*>)([^<]*)</option>`).FindAllStringSubmatch(control[2], -1) {
			value, ok := attribute(option[1], "value")
			if !ok {
				value = option[2]
			}
			try(control[1], value)
		}
	}
	for _, control := range regexp.MustCompile(`<input data-field="(\w+)" data-steps="([^"]*)">`).FindAllStringSubmatch(string(page), -1) {
		for value := range strings.FieldsSeq(control[2]) {
			try(control[1], value)
		}
	}
	if choices < 15 {
		t.Errorf("the page has %d choices", choices)
	}
}
