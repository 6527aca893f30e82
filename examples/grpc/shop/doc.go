// Package shop is the service of this example, generated from shop.proto by
//
//	./examples/generate examples/grpc/shop/shop.proto
package shop
