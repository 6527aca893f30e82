module github.com/goretry/retry/retrysim

go 1.26.0

require github.com/goretry/retry v0.0.0

replace github.com/goretry/retry => ../
