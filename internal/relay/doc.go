// Package relay decides whether a server that has retried and failed tells its caller
// not to retry, since retries of several layers multiply. HTTP and gRPC each have
// their own header for that.
package relay
