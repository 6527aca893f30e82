module github.com/goretry/retry/retryvet/behaviour

go 1.26.0

require (
	github.com/avast/retry-go/v4 v4.6.1
	github.com/avast/retry-go/v5 v5.1.1
	github.com/cenkalti/backoff/v4 v4.3.0
	github.com/cenkalti/backoff/v5 v5.0.3
	github.com/cenkalti/backoff/v6 v6.0.0
	github.com/cenkalti/backoff/v7 v7.0.3
	github.com/goretry/retry/retryvet v0.0.0
	github.com/sethvargo/go-retry v0.5.0
	golang.org/x/tools v0.51.0
)

require (
	github.com/goretry/retry v0.0.0
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
)

replace (
	github.com/goretry/retry => ../..
	github.com/goretry/retry/retryvet => ../
)
