module github.com/goretry/retry/retrygrpc

go 1.26.0

require (
	github.com/goretry/retry v0.0.0
	golang.org/x/net v0.59.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b
	google.golang.org/grpc v1.83.2
	google.golang.org/protobuf v1.36.12
)

require (
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace github.com/goretry/retry => ../
