// franz-go as a member of a group: the commands and events of ../member.py.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const pollTime = 100 * time.Millisecond

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

type command struct {
	Do          string   `json:"do"`
	Bootstrap   string   `json:"bootstrap"`
	Group       string   `json:"group"`
	Topics      []string `json:"topics"`
	ClientID    string   `json:"client_id"`
	Assignor    string   `json:"assignor"`
	InstanceID  *string  `json:"instance_id"`
	Session     int64    `json:"session_timeout_ms"`
	Heartbeat   int64    `json:"heartbeat_interval_ms"`
	MaxPoll     int64    `json:"max_poll_interval_ms"`
	MetadataAge int64    `json:"metadata_max_age_ms"`
	Commits     string   `json:"commits"`
}

func main() {
	commands := make(chan command)
	go readCommands(commands)
	membership := newMembership()
	membership.tell("ready", nil)
	wish, ok := <-commands
	if !ok {
		return
	}
	client, err := join(wish, membership)
	check(err)
	for {
		poll(client, membership)
		if !obey(client, membership, commands) {
			return
		}
		if wish.Commits == "each-poll" {
			commit(client, membership, membership.uncommittedOf(nil))
		}
		// Until here the client lets no rebalance take away what was just read.
		client.AllowRebalance()
	}
}

func join(wish command, membership *membership) (*kgo.Client, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(wish.Bootstrap),
		kgo.ClientID(wish.ClientID),
		kgo.ConsumerGroup(wish.Group),
		kgo.ConsumeTopics(wish.Topics...),
		kgo.Balancers(balancers[wish.Assignor]()),
		kgo.SessionTimeout(milliseconds(wish.Session)),
		kgo.HeartbeatInterval(milliseconds(wish.Heartbeat)),
		// There is no max.poll.interval.ms here: a member that does not poll is only missed when others want to rebalance.
		kgo.RebalanceTimeout(milliseconds(wish.MaxPoll)),
		kgo.MetadataMaxAge(milliseconds(wish.MetadataAge)),
		kgo.MetadataMinAge(min(milliseconds(wish.MetadataAge), 100*time.Millisecond)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			membership.assigned(names(partitions), identityOf(client))
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			if wish.Commits == "when-revoked" {
				commit(client, membership, membership.uncommittedOf(names(partitions)))
			}
			membership.gone("revoked", names(partitions), identityOf(client))
		}),
		kgo.OnPartitionsLost(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			membership.gone("lost", names(partitions), identityOf(client))
		}),
	}
	if wish.InstanceID != nil {
		options = append(options, kgo.InstanceID(*wish.InstanceID))
	}
	return kgo.NewClient(options...)
}

func poll(client *kgo.Client, membership *membership) {
	ctx, cancel := context.WithTimeout(context.Background(), pollTime)
	defer cancel()
	fetches := client.PollRecords(ctx, 500)
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			membership.tell("error", fields{"error": err.Error()})
		}
	})
	fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
		if len(fetched.Records) > 0 {
			membership.read(name(fetched.Topic, fetched.Partition), fetched.Records)
		}
	})
	membership.forgetWhatWasTaken()
}

// obey does what was commanded meanwhile, and waits for more while the member pauses; false at the end.
func obey(client *kgo.Client, membership *membership, commands chan command) bool {
	isPaused := false
	for {
		var next command
		var ok bool
		if isPaused {
			next, ok = <-commands
		} else {
			select {
			case next, ok = <-commands:
			default:
				return true
			}
		}
		if !ok {
			return false
		}
		switch next.Do {
		case "pause":
			isPaused = true
			membership.tell("paused", nil)
		case "resume":
			isPaused = false
			membership.tell("resumed", nil)
		case "commit":
			commit(client, membership, membership.uncommittedOf(nil))
		case "leave":
			client.CloseAllowingRebalance()
			membership.tell("left", nil)
			return false
		default:
			check(fmt.Errorf("there is no command %s", next.Do))
		}
	}
}

func commit(client *kgo.Client, membership *membership, offsets map[string]int64) {
	if len(offsets) == 0 {
		return
	}
	wanted := map[string]map[int32]kgo.EpochOffset{}
	for partition, offset := range offsets {
		topic, index := split(partition)
		if wanted[topic] == nil {
			wanted[topic] = map[int32]kgo.EpochOffset{}
		}
		wanted[topic][index] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	client.CommitOffsetsSync(context.Background(), wanted,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			membership.committed(offsets, firstError(response, err))
		})
}

func firstError(response *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func readCommands(commands chan<- command) {
	for lines := json.NewDecoder(os.Stdin); ; {
		var next command
		if err := lines.Decode(&next); err != nil {
			close(commands)
			return
		}
		commands <- next
	}
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
