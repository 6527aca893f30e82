// Package queues tests what package retryqueue makes of real clients' errors.
package queues
