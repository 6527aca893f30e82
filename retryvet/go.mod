module github.com/goretry/retry/retryvet

go 1.26.0

require (
	github.com/golangci/plugin-module-register v0.1.2 // the lowest that is not under the GPL
	golang.org/x/mod v0.29.0
	golang.org/x/tools v0.38.0
)

require golang.org/x/sync v0.17.0 // indirect
