module github.com/goretry/retry

go 1.26
