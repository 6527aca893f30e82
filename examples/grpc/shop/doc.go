// Package shop is the service of this example, generated from shop.proto by
//
//	./examples/grpc/shop/generate
package shop
