module github.com/avast/retry-go/v3

go 1.26.0
