module github.com/goretry/retry/clockx/benbjohnson

go 1.26

require (
	github.com/benbjohnson/clock v1.3.5
	github.com/goretry/retry v0.0.0
)

replace github.com/goretry/retry => ../..
