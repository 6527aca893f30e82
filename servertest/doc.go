// Package servertest is the module of the tests that need servers or a browser, and of
// what drives them: real databases, NATS clusters, a fake of a Kafka cluster, and Chromium for the two pages of the
// library. It is a module of its own, so that no other requires them. It has no code.
package servertest
