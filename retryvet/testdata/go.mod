// The samples compile against this repository, and against the declarations of the
// other libraries that stand under stubs.
module samples

go 1.26.0

require (
	github.com/goretry/retry v0.0.0
	github.com/avast/retry-go v0.0.0
	github.com/avast/retry-go/v3 v3.0.0
	github.com/avast/retry-go/v4 v4.0.0
	github.com/avast/retry-go/v5 v5.0.0
	github.com/cenkalti/backoff v0.0.0
	github.com/cenkalti/backoff/v3 v3.0.0
	github.com/cenkalti/backoff/v4 v4.3.0
	github.com/cenkalti/backoff/v5 v5.0.0
	github.com/cenkalti/backoff/v6 v6.0.0
	github.com/cenkalti/backoff/v7 v7.0.0
	github.com/hashicorp/go-retryablehttp v0.0.0
	github.com/sethvargo/go-retry v0.3.0
)

replace (
	github.com/goretry/retry => ../..
	github.com/avast/retry-go => ./stubs/avast0
	github.com/avast/retry-go/v3 => ./stubs/avast3
	github.com/avast/retry-go/v4 => ./stubs/avast4
	github.com/avast/retry-go/v5 => ./stubs/avast5
	github.com/cenkalti/backoff => ./stubs/backoff0
	github.com/cenkalti/backoff/v3 => ./stubs/backoff3
	github.com/cenkalti/backoff/v4 => ./stubs/backoff4
	github.com/cenkalti/backoff/v5 => ./stubs/backoff5
	github.com/cenkalti/backoff/v6 => ./stubs/backoff6
	github.com/cenkalti/backoff/v7 => ./stubs/backoff7
	github.com/hashicorp/go-retryablehttp => ./stubs/retryablehttp
	github.com/sethvargo/go-retry => ./stubs/sethvargo
)
