// Command retryvet finds mistakes that compile in programs that retry, and rewrites calls
// of other retry libraries.
//
//	retryvet ./...                            report
//	retryvet -fix ./...                       rewrite calls of other libraries
//	retryvet -fix -diff ./...                 show what that would change
//	retryvet -json ./...                      report as JSON
//	retryvet -loopctx=false ./...             without one of the checks
//	go vet -vettool=$(which retryvet) ./...   beside go vet's cache
//
// What may live here: a main function, and what the command says of its work. The checks
// are in package retryvet, and what rewrites calls is package migrate.
package main

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/goretry/retry/retryvet/internal/both"
)

// inner is set in the environment of the run that this command makes of itself to apply
// fixes: only singlechecker can merge, format and compare them.
const inner = "RETRYVET_INNER"

func main() {
	args := os.Args[1:]
	if os.Getenv(inner) != "" || ofVet(args) {
		singlechecker.Main(both.Analyzer())
	}
	os.Exit(command(args, os.Stdout, os.Stderr))
}

// ofVet reports whether args are those of go vet -vettool, whose protocol singlechecker
// speaks.
func ofVet(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && (name == "V" || name == "flags") || strings.HasSuffix(arg, ".cfg")
	})
}
