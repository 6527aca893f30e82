// Command retryvet finds mistakes that compile in programs that retry.
//
//	retryvet ./...                            report
//	retryvet -fix ./...                       rewrite calls of other libraries
//	retryvet -fix -diff ./...                 show what that would change
//	retryvet -json ./...                      report as JSON
//	retryvet -loopctx=false ./...             without one of the checks
//	go vet -vettool=$(which retryvet) ./...   beside go vet's cache
//
// What may live here: a main function, and what -fix says. The checks are in package
// retryvet.
package main

import (
	"os"

	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/goretry/retry/retryvet"
)

// singlechecker also speaks the protocol of go vet -vettool.
func main() {
	if args := os.Args[1:]; os.Getenv(inner) == "" && speaks(args) {
		os.Exit(fix(args, os.Stdout, os.Stderr))
	}
	singlechecker.Main(retryvet.Analyzer)
}
