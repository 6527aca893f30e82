package oracle

import (
	_ "embed" // for types
	"fmt"
	"slices"
	"strings"
)

//go:embed types.txt
var types string

// A Type is a line of types.txt.
type Type struct {
	Packages, Names []string
	Rules           []Rule
}

// A Rule is one of a type: see package clienterr. That of the kind always has Facts instead of a Table.
type Rule struct {
	Kind, Table, Path string
	Facts             Facts
}

// Kinds are those of rules, in the order of their numbers in package clienterr, in which 0 is none.
var Kinds = []string{
	"", "code", "status", "seconds", "millis", "header", "error", "tooMany", "always", "connecting", "connect", "librdkafka", "kafka", "redis", "token", "facts", "quic", "mysql", "mssql", "sqlite", "dynamodb", "kerberos", "urn", "syntax",
}

// Types returns what types.txt has.
func Types() (all []Type, err error) {
	for line := range strings.Lines(types) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# ") {
			continue
		}
		columns := strings.Split(line, "\t")
		if len(columns) < 3 {
			return nil, fmt.Errorf("types.txt: %q has no rule", line)
		}
		t := Type{strings.Split(columns[0], " "), strings.Split(columns[1], " "), nil}
		for _, column := range columns[2:] {
			how, path, _ := strings.Cut(column, ": ")
			kind, table, _ := strings.Cut(how, " ")
			if kind == "" || !slices.Contains(Kinds, kind) {
				return nil, fmt.Errorf("types.txt: %q has the kind %q", line, kind)
			}
			rule := Rule{Kind: kind, Path: path}
			if kind == "always" {
				if rule.Facts, err = (Row{Verdict: "unknown", Given: table}).Facts(); err != nil {
					return nil, fmt.Errorf("types.txt: %q: %w", line, err)
				}
			} else {
				rule.Table = table
			}
			t.Rules = append(t.Rules, rule)
		}
		all = append(all, t)
	}
	return all, nil
}
