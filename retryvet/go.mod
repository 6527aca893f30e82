module github.com/goretry/retry/retryvet

go 1.26.0

require (
	golang.org/x/mod v0.25.0
	golang.org/x/tools v0.34.0
)

require golang.org/x/sync v0.15.0 // indirect
