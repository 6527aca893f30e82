// Command retryvet finds what compiles and is wrong in programs that retry.
//
//	retryvet ./...                            report
//	retryvet -fix ./...                       rewrite calls of other libraries
//	retryvet -json ./...                      report as JSON
//	retryvet -loopctx=false ./...             without one of the checks
//	go vet -vettool=$(which retryvet) ./...   beside go vet's cache
//
// What may live here: a main function. The checks are in package retryvet.
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/goretry/retry/retryvet"
)

// singlechecker also speaks the protocol of go vet -vettool.
func main() { singlechecker.Main(retryvet.Analyzer) }
