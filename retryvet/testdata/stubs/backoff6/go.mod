module github.com/cenkalti/backoff/v6

go 1.26.0
