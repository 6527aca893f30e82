// Package retryredis is for what processes share through Redis.
package retryredis
