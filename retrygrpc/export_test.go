package retrygrpc

import "google.golang.org/grpc"

// UnaryServer and StreamServer are the interceptors of ServerOptions.
var (
	UnaryServer  = unaryServer
	StreamServer = streamServer
)

// UnaryInterceptor is the interceptor of c, for what measures it without grpc.
func (c *Client) UnaryInterceptor() grpc.UnaryClientInterceptor { return c.unary }
