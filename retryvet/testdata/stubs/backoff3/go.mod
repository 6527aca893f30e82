module github.com/cenkalti/backoff/v3

go 1.26.0
