module github.com/cenkalti/backoff/v7

go 1.26.0
