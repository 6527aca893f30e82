module github.com/goretry/retry/retrygrpc

go 1.26.0

require (
	github.com/goretry/retry v0.0.0
	golang.org/x/net v0.21.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240227224415-6ceb2ff114de
	google.golang.org/grpc v1.63.0
	google.golang.org/protobuf v1.33.0
)

require (
	golang.org/x/sys v0.17.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)

replace github.com/goretry/retry => ../
