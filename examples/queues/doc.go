// Package queues shows how messages of queues are retried by a policy: on Kafka with package
// retrykafka, and with package retryqueue on those that this repository has no module for:
// Amazon SQS, Google Pub/Sub, RabbitMQ, asynq, River and Temporal. Each type's comment says what it
// lacks. Copy what you need: the file of your queue, and lease.go and gate.go with some.
//
//	go test ./examples/queues
//
// The tests of asynq and RabbitMQ need Debian's packages redis-server and rabbitmq-server. Others run
// on the fakes that the clients' authors made, or on fakes of the clients. Two more show what
// OpenTelemetry sees of packages retrynats and retrykafka.
package queues
