package clients_test

import (
	"context"
	"errors"
	"testing"
	"time"

	confluent "github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// librdkafka's errors, as a broker, a network and a producer that has come to its end make them.
func TestConfluentKafka(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "topic"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	producer := func(t *testing.T, servers string) *confluent.Producer {
		p, err := confluent.NewProducer(&confluent.ConfigMap{"bootstrap.servers": servers, "retries": 0, "message.timeout.ms": 60_000, "log_level": 0})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	for _, tt := range []struct {
		answer *kerr.Error
		want   retry.Class
	}{
		{kerr.MessageTooLarge, permanent},
		{kerr.TopicAuthorizationFailed, permanent},
		{kerr.NotEnoughReplicas, transient},
		{kerr.KafkaStorageError, transient},
		{kerr.ThrottlingQuotaExceeded, throttled},
	} {
		t.Run(tt.answer.Message, func(t *testing.T) {
			c.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
				return refusal(request, tt.answer.Code), nil, true
			})
			topic, reports := "topic", make(chan confluent.Event, 1)
			p := producer(t, c.ListenAddrs()[0])
			if err := p.Produce(&confluent.Message{TopicPartition: confluent.TopicPartition{Topic: &topic, Partition: 0}, Value: []byte("x")}, reports); err != nil {
				t.Fatal(err)
			}
			err := (<-reports).(*confluent.Message).TopicPartition.Error
			if got := retry.DefaultClassifier(err); got != tt.want {
				t.Errorf("%v is %v, want %v", err, got, tt.want)
			}
		})
	}
	_, err = producer(t, "127.0.0.1:1").GetMetadata(nil, true, 1000)
	if got := retry.DefaultClassifier(err); got != transient {
		t.Errorf("%v is %v", err, got)
	}
	p := producer(t, c.ListenAddrs()[0])
	p.TestFatalError(confluent.ErrOutOfOrderSequenceNumber, "x")
	err = p.GetFatalError()
	sessions := 0
	_ = retry.Supervise(t.Context(), retry.Policy{MaxAttempts: 2, Clock: &clockx.Virtual{}}, time.Second, func(context.Context) error { sessions++; return err })
	if got := retry.DefaultClassifier(err); got != permanent || sessions != 2 {
		t.Errorf("%v is %v to a call, and Supervise has begun %d sessions", err, got, sessions)
	}
	if err := p.Produce(&confluent.Message{}, nil); retry.DefaultClassifier(err) != permanent {
		t.Errorf("%v of a message without a topic: %v", err, retry.DefaultClassifier(err))
	}
	if err := errors.Join(confluent.NewError(confluent.ErrTimedOut, "x", false)); retry.DefaultClassifier(err) != timedOut {
		t.Errorf("%v: %v", err, retry.DefaultClassifier(err))
	}
}

// refusal answers a request to produce by an error.
func refusal(request kmsg.Request, code int16) kmsg.Response {
	response := request.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range request.(*kmsg.ProduceRequest).Topics {
		failed := kmsg.ProduceResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID}
		for _, partition := range topic.Partitions {
			failed.Partitions = append(failed.Partitions, kmsg.ProduceResponseTopicPartition{Partition: partition.Partition, ErrorCode: code})
		}
		response.Topics = append(response.Topics, failed)
	}
	return response
}
