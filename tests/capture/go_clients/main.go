// Go clients that are only captured: they write a few records, then read and commit them as a member of a group.
//
//	go_clients sarama|kafka-go BOOTSTRAP TOPIC GROUP SECONDS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
)

const records = 8

func main() {
	if len(os.Args) != 6 {
		fail(errors.New("say sarama|kafka-go BOOTSTRAP TOPIC GROUP SECONDS"))
	}
	bootstrap, topic, group := os.Args[2], os.Args[3], os.Args[4]
	seconds, err := strconv.ParseFloat(os.Args[5], 64)
	check(err)
	play := map[string]func(context.Context, string, string, string) error{"sarama": playSarama, "kafka-go": playKafkaGo}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
	defer cancel()
	check(play[os.Args[1]](ctx, bootstrap, topic, group))
}

func playSarama(ctx context.Context, bootstrap, topic, group string) error {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	client, err := sarama.NewClient([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return err
	}
	for number := range records {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(number))}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	member, err := sarama.NewConsumerGroupFromClient(group, client)
	if err != nil {
		return err
	}
	defer member.Close()
	for ctx.Err() == nil {
		if err := member.Consume(ctx, []string{topic}, committer{}); err != nil {
			return err
		}
	}
	return nil
}

// Commits each record that sarama hands over.
type committer struct{}

func (committer) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (committer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (committer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		session.Commit()
	}
	return nil
}

func playKafkaGo(ctx context.Context, bootstrap, topic, group string) error {
	// Its own default client ids name the machine.
	writer := &kafka.Writer{
		Addr:      kafka.TCP(bootstrap),
		Topic:     topic,
		BatchSize: records,
		Transport: &kafka.Transport{ClientID: "kafka-go"},
	}
	defer writer.Close()
	var messages []kafka.Message
	for number := range records {
		messages = append(messages, kafka.Message{Value: []byte(fmt.Sprint(number))})
	}
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		return err
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:           []string{bootstrap},
		GroupID:           group,
		Topic:             topic,
		Dialer:            &kafka.Dialer{ClientID: "kafka-go", DualStack: true},
		StartOffset:       kafka.FirstOffset,
		HeartbeatInterval: 200 * time.Millisecond,
	})
	defer reader.Close()
	for {
		if _, err := reader.ReadMessage(ctx); err != nil && ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
