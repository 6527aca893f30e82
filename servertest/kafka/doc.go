// Package kafka has the tests of package retrykafka, against franz-go's fake of a Kafka cluster. They
// run in virtual time, but for those that kill a process.
package kafka
