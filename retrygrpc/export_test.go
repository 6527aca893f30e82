package retrygrpc

import "google.golang.org/grpc"

// UnaryInterceptor is the interceptor of c, for what measures it without grpc.
func (c *Client) UnaryInterceptor() grpc.UnaryClientInterceptor { return c.unary }
