module github.com/goretry/retry/examples

go 1.26

require github.com/goretry/retry v0.0.0

replace github.com/goretry/retry => ../
