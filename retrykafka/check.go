package retrykafka

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Check returns an error that says what is wrong with the handler, its client or its topics, and what
// to set, or nil. All problems are joined. It asks the brokers for the topics and their
// configuration. It refuses
//
//   - a client without a ConsumerGroup or without Options;
//   - one that does not wait for all replicas, or has ManualFlushing or a TransactionalID, with which no
//     copy is written;
//   - with Waits, a ConsumeStartOffset that may pass over records that wait;
//   - Waits whose delays do not ascend, and a Dead that is consumed;
//   - a topic that is missing;
//   - a wait or dead-letter topic that is compacted, which drops records of one key;
//   - a wait topic that deletes records before their Delay is over, or has the brokers' times: with a
//     clock that is behind by Delay a record would go on by copy after copy, without a wait.
//
// What it may not see because of the cluster's access rules it does not refuse.
func (h *Handler) Check(ctx context.Context, cl *kgo.Client) error {
	var objections []error
	object := func(format string, args ...any) {
		objections = append(objections, fmt.Errorf("retrykafka: "+format, args...))
	}
	h.checkItself(object)
	consumed := h.checkClient(cl, object)
	if len(objections) > 0 {
		return errors.Join(objections...)
	}
	if err := h.checkTopics(ctx, cl, consumed, object); err != nil {
		return fmt.Errorf("retrykafka: topics: %w", err)
	}
	return errors.Join(objections...)
}

func (h *Handler) checkItself(object func(string, ...any)) {
	if h.Handle == nil {
		object("Handler.Handle is nil")
	}
	for i, w := range h.Waits {
		if w.Delay <= 0 || i > 0 && w.Delay <= h.Waits[i-1].Delay {
			object("wait topic %s has the delay %v: let delays of Handler.Waits ascend", w.Topic, w.Delay)
		}
	}
}

// checkClient returns the topics that are consumed, but those that are given as expressions.
func (h *Handler) checkClient(cl *kgo.Client, object func(string, ...any)) (topics []string) {
	if group, _ := cl.OptValue(kgo.ConsumerGroup).(string); group == "" {
		object("the client has no group: set kgo.ConsumerGroup")
	}
	blocks, _ := cl.OptValue(kgo.BlockRebalanceOnPoll).(bool)
	keeps, _ := cl.OptValue(kgo.DisableAutoCommit).(bool)
	consumed, _ := cl.OptValue(kgo.ConsumeTopics).(map[string]*regexp.Regexp)
	for _, w := range h.Waits {
		_, ok := consumed[w.Topic]
		blocks = blocks && ok
	}
	if !blocks || !keeps || !same(cl.OptValue(kgo.OnOffsetsFetched), h.fetched) { // others are wrapped by the client
		object("the client was made without Handler.Options, or an option after these has replaced one")
	}
	if cl.OptValue(kgo.RequiredAcks) != kgo.AllISRAcks() {
		object("a copy that not all replicas have can be lost: set kgo.RequiredAcks(kgo.AllISRAcks())")
	}
	if manual, _ := cl.OptValue(kgo.ManualFlushing).(bool); manual {
		object("no copy is written with kgo.ManualFlushing: leave it out")
	}
	if id, _ := cl.OptValue(kgo.TransactionalID).(string); id != "" {
		object("copies are not written in transactions: leave out kgo.TransactionalID")
	}
	if at, ok := cl.OptValue(kgo.ConsumeStartOffset).(kgo.Offset); len(h.Waits) > 0 && ok && at.EpochOffset().Offset != kgo.NewOffset().AtStart().EpochOffset().Offset {
		object("a ConsumeStartOffset other than the start passes over records that wait: commit offsets for the group instead")
	}
	regex, _ := cl.OptValue(kgo.ConsumeRegex).(bool)
	for topic, expr := range consumed {
		if h.Dead != "" && (topic == h.Dead || regex && expr.MatchString(h.Dead)) {
			object("the client consumes the dead-letter topic %s, so that dead records start anew", h.Dead)
		}
		if !regex {
			topics = append(topics, topic)
		}
	}
	return topics
}

// same reports whether a func is a method of this package's. Which Handler's, nobody can see.
func same(f, method any) bool {
	v := reflect.ValueOf(f)
	return v.Kind() == reflect.Func && v.Pointer() == reflect.ValueOf(method).Pointer()
}

// checkTopics returns an error if no broker answers.
func (h *Handler) checkTopics(ctx context.Context, cl *kgo.Client, consumed []string, object func(string, ...any)) error {
	topics, delays := slices.Clone(consumed), map[string]time.Duration{}
	for _, w := range h.Waits {
		delays[w.Topic] = w.Delay
		topics = append(topics, w.Topic)
	}
	if h.Dead != "" {
		delays[h.Dead] = 0
		topics = append(topics, h.Dead)
	}
	slices.Sort(topics)
	metadata, configs := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range slices.Compact(topics) {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		metadata.Topics = append(metadata.Topics, t)
		if _, ok := delays[name]; ok {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, name, []string{"cleanup.policy", "retention.ms", "message.timestamp.type"}
			configs.Resources = append(configs.Resources, r)
		}
	}
	if len(metadata.Topics) == 0 {
		return nil // no topics would ask for all
	}
	resp, err := metadata.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); errors.Is(err, kerr.UnknownTopicOrPartition) || err != nil && !kerr.IsRetriable(err) {
			object("topic %s: %w", *t.Topic, err) // it was asked for by its name
		}
	}
	if len(configs.Resources) == 0 {
		return nil
	}
	described, err := configs.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, r := range described.Resources {
		for _, c := range r.Configs {
			if c.Value == nil {
				continue
			}
			switch ms, _ := strconv.ParseInt(*c.Value, 10, 64); {
			case c.Name == "message.timestamp.type" && *c.Value == "LogAppendTime" && delays[r.ResourceName] > 0:
				object("topic %s has the times of brokers: set message.timestamp.type=CreateTime", r.ResourceName)
			case c.Name == "cleanup.policy" && strings.Contains(*c.Value, "compact"):
				object("topic %s is compacted, which drops records of one key: set cleanup.policy=delete", r.ResourceName)
			case c.Name == "retention.ms" && ms >= 0 && ms <= delays[r.ResourceName].Milliseconds() && delays[r.ResourceName] > 0:
				object("topic %s deletes records after %v, before its delay of %v is over: set a longer retention.ms",
					r.ResourceName, time.Duration(ms)*time.Millisecond, delays[r.ResourceName])
			}
		}
	}
	return nil
}
